"""The page of a job shows the delivery that started it, to who may see deliveries; `manage.py check` looks at the rules
that apps declare in their code (`webhooks.on`)."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from django.core.checks import CheckMessage, Error, Warning, register  # noqa: A004  # Django's name for it
from django.urls import reverse

from jobs import operations as jobs
from jobs.operations import Link
from jobs.operations.hooks import Viewer
from webhooks.domain.deliveries import Source, StartOutcome
from webhooks.handlers import registry
from webhooks.live_queries import may_view
from webhooks.models import JobStart

_SHOWN = 200
_TWICE = "two rules have this name, so a delivery starts the job of one alone: give one of them another name=."


@jobs.register_links
def deliveries_of(job_id: int, viewer: Viewer) -> Iterable[Link]:
    """The delivery that started the job, and those that its unique key has it stand for, but for forgotten ones."""
    rows = JobStart.objects.filter(job_id=job_id, delivery__pk__isnull=False).select_related("delivery")
    shown = rows.defer("delivery__body", "delivery__search", "delivery__headers").order_by("pk")[:_SHOWN]
    for start in shown if may_view(viewer) else ():
        yield Link(
            label="Stands for" if start.outcome == StartOutcome.SKIPPED else "Started by",
            text=f"delivery #{start.delivery.pk} of {Source(start.delivery.source).label}",
            url=reverse("webhooks:delivery", args=[start.delivery.pk]),
            note=f"by the rule {start.rule_name}",
        )


@register()
def check_rules(**_: Any) -> list[CheckMessage]:
    """Find rules that can start no job (E001), two of one name (E002), and kinds that no code declares (W001)."""
    declared = registry.declared()
    mistakes = [(one.rule.name, one.mistake()) for one in declared]
    names = Counter(one.rule.name for one in declared)
    return [
        *(Error(f"webhooks.on {name!r}: {why}", id="webhooks.E001") for name, why in mistakes if why),
        *(Error(f"webhooks.on {name!r}: {_TWICE}", id="webhooks.E002") for name, count in names.items() if count > 1),
        *(_undeclared(one) for one in declared if one.rule.kind and one.rule.kind not in jobs.declared()),
    ]


def _undeclared(one: registry.Declaration) -> CheckMessage:
    sentence = f"webhooks.on {one.rule.name!r}: no code declares the kind {one.rule.kind!r}."
    hint = "Declare it, or create it with the command `create_kind`; `doctor` says whether it is there."
    return Warning(sentence, hint=hint, id="webhooks.W001")
