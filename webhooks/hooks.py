"""The page of a job shows the delivery that started it, to who may see deliveries."""

from collections.abc import Iterable

from django.urls import reverse

from jobs import operations as jobs
from jobs.operations import Link
from jobs.operations.hooks import Viewer
from webhooks.domain.deliveries import Source, StartOutcome
from webhooks.live_queries import may_view
from webhooks.models import JobStart

_SHOWN = 200


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
