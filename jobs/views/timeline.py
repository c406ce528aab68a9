"""The page on which all workers and what they run are seen at once."""

from typing import Final

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from core import people
from jobs.live_queries.farm import TIMELINE_MINUTES
from jobs.queries import reads
from jobs.views import access

_LEGEND: Final = (
    ("in_progress", "in progress"),
    ("success", "success"),
    ("failed", "failed, lost or timed out"),
    ("canceled", "canceled or given back"),
)


@access.page
def timeline(request: HttpRequest) -> HttpResponse:
    """Workers as lanes, attempts as bars, over the last minutes (`?minutes=` 5, 15 or 60), live. For operators."""
    if not reads.is_operator(people.person(request)):
        raise PermissionDenied
    wanted = {str(minutes): minutes for minutes in TIMELINE_MINUTES}
    minutes = wanted.get(request.GET.get("minutes", ""), 15)
    context = {"minutes": minutes, "choices": TIMELINE_MINUTES, "legend": _LEGEND}
    return render(request, "jobs/timeline.html", context)
