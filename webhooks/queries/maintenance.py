"""Statements of the crons: the day of each source, the catalog of models, what reconciliation found."""

from collections.abc import Sequence
from datetime import datetime

from django.db.models.functions import Now

from postgres import statements
from webhooks.domain.names import Source
from webhooks.models import CatalogModel, ModelServer, Reconciliation


def day_of_sources(*, start: datetime, stop: datetime) -> list[statements.Row]:
    """How each source did; rows of `name ended succeeded latency_p50_s latency_p95_s backlog`."""
    params = {"start": start, "stop": stop, "sources": [source.value for source in Source]}
    return statements.load("webhooks", "day_of_sources").run(params)


def note_answer(url: str, *, names: Sequence[tuple[str, str, datetime | None]]) -> int:
    """A server listed its models, as (name, owner, made at); what it no longer lists is gone. How many it lists."""
    server, _ = ModelServer.objects.update_or_create(
        url=url, defaults={"polled_at": Now(), "answered_at": Now(), "error": None}
    )
    listed = [CatalogModel(server=server, name=name, owned_by=owner, made_at=at) for name, owner, at in names]
    CatalogModel.objects.bulk_create(
        listed, update_conflicts=True, unique_fields=["server", "name"], update_fields=["owned_by", "made_at"]
    )
    present = CatalogModel.objects.filter(server=server, name__in=[name for name, _, _ in names])
    present.update(last_seen_at=Now(), gone_at=None)
    CatalogModel.objects.filter(server=server, gone_at=None).exclude(pk__in=present).update(gone_at=Now())
    return len(listed)


def note_silence(url: str, *, error: str) -> None:
    """A server could not be asked; what it listed before stays."""
    ModelServer.objects.update_or_create(url=url, defaults={"polled_at": Now(), "error": error})


def forget_reconciliations(*, keep: int) -> None:
    oldest = Reconciliation.objects.order_by("-pk").values_list("pk", flat=True)[keep - 1 : keep]
    Reconciliation.objects.filter(pk__lt=next(iter(oldest), 0)).delete()
