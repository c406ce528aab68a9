"""The page of a flow, and what can be done with all of it."""

from typing import Final

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from core import people
from jobs import operations
from jobs.domain.filters import ids_of
from jobs.queries import reads
from jobs.views import access

_LEGEND: Final = (
    ("pending", "waited for a worker"),
    ("in_progress", "in progress"),
    ("ran", "ran"),
    ("suspended", "suspended, until a worker took it again"),
    ("failed", "failed, lost or timed out"),
    ("canceled", "canceled or given back"),
)


@access.page
def flow(request: HttpRequest, flow_id: int) -> HttpResponse:
    """A flow, live: the picture of its jobs, how they stand and what they took."""
    if not reads.visible_to(request.user).filter(flow_id=flow_id).exists():
        raise Http404("There is no such flow.")
    context = {"flow_id": flow_id, "whose": access.viewer(people.person(request)), "legend": _LEGEND}
    return render(request, "jobs/flow.html", context)


@access.action("jobs:flow")
def cancel(request: HttpRequest, flow_id: int) -> str:
    canceled = operations.flows.cancel(flow_id, by=people.person(request))
    return f"Canceled {canceled:,} {'job' if canceled == 1 else 'jobs'}."


@access.action("jobs:flow")
def retry(request: HttpRequest, flow_id: int) -> str:
    """Try again what failed, and what was canceled for its sake; or the job that is named and what came after it."""
    from_job = next(iter(ids_of(request.POST.get("from", ""))), None)
    again = len(operations.flows.retry(flow_id, by=people.person(request), from_job=from_job))
    if from_job is not None:
        return f"Retried from job #{from_job}: {again:,} {'job' if again == 1 else 'jobs'} submitted again."
    if not again:
        return "Nothing of it is left to be tried again."
    return f"{again:,} {'job is' if again == 1 else 'jobs are'} tried again, with what was canceled for their sake."
