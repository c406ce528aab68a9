"""Attempts: what went wrong, across all jobs."""

from typing import Any, Final

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Right
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404

from core import administration
from core.values import row_id
from jobs.models import Attempt
from jobs.templatetags import farm

ENDING: Final = 500  # characters at the end of an error, among which its last line is looked for
FILTERS: Final = ["outcome", administration.by_day("ended_at", leads=True)]
_COLOURS: Final = {"failed": "danger", "timed_out": "warning"}
COLOURS: Final[dict[str, str]] = {
    outcome: _COLOURS.get(badge["status"], "default") for outcome, badge in farm.OUTCOMES.items()
}


@admin.register(Attempt)
class AttemptAdmin(administration.OnSite, administration.BoundedList):
    """Each leads to the page of its job, which shows it among the others."""

    page = "jobs:job"

    list_display = ["id", "job_link", "number", "how", "worker_link", "ended_at", "last_words"]
    list_filter = FILTERS
    search_fields = ["job_id"]
    search_help_text = "The id of a job"

    def get_queryset(self, request: HttpRequest) -> QuerySet[Attempt]:
        """Only the end of an error, which may be of a megabyte."""
        rows: QuerySet[Attempt] = super().get_queryset(request)
        return rows.defer("error").annotate(ending=Right("error", ENDING))

    def change_view(self, request: HttpRequest, object_id: str, *_: Any, **__: Any) -> HttpResponse:
        attempt = get_object_or_404(Attempt, pk=row_id(object_id) or 0)
        return super().change_view(request, str(attempt.job_id))

    def finds_exactly(self, term: str) -> bool:
        return bool(term.strip())

    def search(self, rows: QuerySet[Attempt], term: str) -> QuerySet[Attempt]:
        return rows.filter(job_id=row_id(term) or 0)

    how = administration.shown(
        "Outcome", lambda attempt: (attempt.outcome, attempt.get_outcome_display()), label=COLOURS
    )
    worker_link = administration.shown(
        "Worker", lambda row: administration.link("jobs_worker", row.worker_id, row.worker_name)
    )
    job_link = administration.shown(
        "Job", lambda attempt: administration.link("jobs_job", attempt.job_id, f"#{attempt.job_id}")
    )
    last_words = administration.shown("Error", lambda attempt: farm.last_line(attempt.ending)[:120])
