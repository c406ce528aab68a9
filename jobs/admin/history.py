"""Attempts: what went wrong, across all jobs."""

from typing import Final

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Right
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from core import administration
from core.values import row_id
from jobs.models import Attempt
from jobs.queries import reports
from jobs.templatetags import farm

TEXT_END: Final = 20_000  # characters of an attempt's output on its page
ENDING: Final = 500  # characters at the end of an error, among which its last line is looked for
FILTERS: Final = ["outcome", administration.by_day("ended_at", leads=True)]
_COLOURS: Final = {"failed": "danger", "timed_out": "warning"}
COLOURS: Final[dict[str, str]] = {
    outcome: _COLOURS.get(badge["status"], "default") for outcome, badge in farm.OUTCOMES.items()
}


def _output(attempt: Attempt) -> SafeString | str:
    """The end of what it wrote, and where all of it is."""
    text, is_cut = reports.end_of_output(attempt.job_id, fence=attempt.number, characters=TEXT_END)
    if not text:
        return "–"
    shown = administration.preformatted(
        f"… cut here; all of it is the text behind the link\n{text}" if is_cut else text
    )
    url = reverse("jobs:output", args=[attempt.job_id, attempt.number])
    return format_html('{}<a href="{}">Output as text</a>', shown, url)


@admin.register(Attempt)
class AttemptAdmin(administration.BoundedList):
    list_display = ["id", "job_link", "number", "how", "worker_link", "ended_at", "last_words"]
    list_filter = FILTERS
    search_fields = ["job_id"]
    search_help_text = "The id of a job"
    fields = ["job_link", "number", "how", "worker_link", "claimed_at", "ended_at", "traceback", "output"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Attempt]:
        """In lists only the end of an error, which may be of a megabyte."""
        rows: QuerySet[Attempt] = super().get_queryset(request)
        match = request.resolver_match
        is_one = match is not None and "object_id" in match.kwargs
        return rows if is_one else rows.defer("error").annotate(ending=Right("error", ENDING))

    def finds_exactly(self, term: str) -> bool:
        return bool(term.strip())

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Attempt], search_term: str  # noqa: ARG002  # the admin's
    ) -> tuple[QuerySet[Attempt], bool]:  # fmt: skip
        term = search_term.strip()
        if not term:
            return queryset, False
        job_id = row_id(term)
        return queryset.none() if job_id is None else queryset.filter(job_id=job_id), False

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
    traceback = administration.shown("Error", lambda attempt: administration.preformatted(farm.cut(attempt.error)))
    output = administration.shown("Output", _output)
