"""The inbox: deliveries with their attempts, what was refused, and the secrets, of which no page shows any."""

from functools import partial
from typing import Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.text import Truncator

from core import administration, people
from core.values import row_id
from live import html
from webhooks import live_queries, operations
from webhooks.domain.deliveries import Source, Status
from webhooks.models import Delivery, Refusal, SandboxToken, Secret
from webhooks.queries import pages

FILTERS: Final = [
    administration.among("source", Source),
    administration.among("status", Status, led=set(Status) - {Status.PROCESSED}),  # most were: they have no index
    administration.recent("event_type"),
    administration.by_day("received_at", leads=True),
]


def _badge(row: Delivery) -> SafeString:
    arguments, known = {"delivery_id": row.pk}, {"delivery": row}
    return html.wrapper_of_context("delivery-badge", arguments, context=known, audience=live_queries.OPERATOR)


def _replay(request: HttpRequest, row: Delivery, *, with_jobs: bool = False) -> str:
    operations.replay(row.pk, with_jobs=with_jobs, by=people.person(request))
    return "processed again"


_replay_with_jobs = partial(_replay, with_jobs=True)


@admin.register(Delivery)
class DeliveryAdmin(administration.OnSite, administration.Operated, administration.BoundedList):
    """What came, as it came. What it leads to changes by replaying it."""

    page = "webhooks:delivery"
    operate = operations.OPERATE

    list_display = ["id", "source", "event_type", "state", "attempts", "duplicates", "excerpt", "received_at"]
    list_display_links = ["id", "event_type"]
    list_filter = FILTERS
    search_fields = ["delivery_id"]
    search_help_text = "Words of the body, a delivery id, a type, or a number of the inbox"
    actions = ["replay_selected", "replay_selected_with_jobs"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Delivery]:
        """Without bodies, which may be of 25 MB."""
        return super().get_queryset(request).defer("body", "search")  # type: ignore[no-any-return]

    def finds_exactly(self, term: str) -> bool:
        """A number is an id; a word may be in any number of bodies."""
        return row_id(term) is not None

    def search(self, rows: QuerySet[Delivery], term: str) -> QuerySet[Delivery]:
        return pages.with_words(rows, term, or_pk=row_id(term))

    state = administration.shown("Status", _badge)
    excerpt = administration.shown("Note", lambda row: Truncator(row.note or "").chars(80))
    replay_selected = administration.on_each("Replay {}", _replay)
    replay_selected_with_jobs = administration.on_each("Replay {} and start their jobs again", _replay_with_jobs)


@admin.register(Refusal)
class RefusalAdmin(administration.BoundedList):
    """Counts of what was refused. Of the requests themselves nothing is kept."""

    list_display = ["hour", "source", "reason", "count", "last_at", "last_address"]
    list_filter = ["source", administration.recent("reason"), administration.by_day("hour")]


def _retire(request: HttpRequest, row: Secret) -> str:
    operations.retire(row.pk, by=people.person(request))
    return "retired"


@admin.register(Secret)
class SecretAdmin(administration.Operated, administration.ReadOnly):
    """Which secrets there are. What they are is shown once, on the page where they are added."""

    operate = operations.OPERATE

    list_display = ["fingerprint", "source", "name", "state", "created_at", "retired_at", "last_used_at"]
    list_filter = ["source", ("retired_at", admin.EmptyFieldListFilter)]
    exclude = ["sealed"]
    actions = ["retire_selected"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Secret]:
        rows: QuerySet[Secret] = super().get_queryset(request)
        return rows.defer("sealed")

    # Whether it opens anything, or will not once its time comes.
    state = administration.shown(
        "Status", lambda secret: "retired" if secret.retired_at else "active",
        label={"retired": "danger", "active": "success"},
    )  # fmt: skip

    def view_on_site(self, obj: Secret) -> str:
        return reverse("webhooks:source", args=[obj.source])

    retire_selected = administration.on_each(
        "Retire {} at once", _retire, line=lambda row: f"{row.get_source_display()} {row.fingerprint} {row.name}"
    )


@admin.register(SandboxToken)
class SandboxTokenAdmin(administration.ReadOnly):
    """Which tokens there are. Their hashes are of no use to anybody."""

    list_display = ["sandbox", "created_at", "expires_at", "revoked_at", "last_used_at"]
    list_filter = [("revoked_at", admin.EmptyFieldListFilter)]
    search_fields = ["sandbox"]
    exclude = ["token_hash"]
