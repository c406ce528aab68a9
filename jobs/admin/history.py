"""Attempts: what went wrong, across all jobs."""

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.decorators import display

from jobs.admin import common
from jobs.models import Attempt
from jobs.templatetags import farm


@admin.register(Attempt)
class AttemptAdmin(common.ReadOnly):
    """The attempts that ended without success, newest first."""

    list_display = ["id", "job_link", "number", "outcome", "worker_name", "ended_at", "last_words"]
    list_filter = ["outcome"]
    show_facets = admin.ShowFacets.NEVER
    sortable_by = ["id"]
    ordering = ["-id"]
    search_fields = ["job_id"]
    search_help_text = "The id of a job"
    fields = ["job_link", "number", "outcome", "worker_name", "claimed_at", "ended_at", "traceback"]
    readonly_fields = fields

    class Media:
        """Tracebacks keep their lines."""

        css = {"all": ["jobs/admin.css"]}

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Attempt], search_term: str  # noqa: ARG002  # the admin's
    ) -> tuple[QuerySet[Attempt], bool]:  # fmt: skip
        """The attempts of one job."""
        term = search_term.strip()
        if not term:
            return queryset, False
        is_id = term.isascii() and term.isdigit() and len(term) <= 18
        return queryset.filter(job_id=int(term)) if is_id else queryset.none(), False

    @display(description="Job")  # type: ignore[untyped-decorator]
    def job_link(self, attempt: Attempt) -> SafeString:
        """The job that it was an attempt of."""
        url = reverse("admin:jobs_job_change", args=[attempt.job_id])
        return format_html('<a href="{}">#{}</a>', url, attempt.job_id)

    @display(description="Error")  # type: ignore[untyped-decorator]
    def last_words(self, attempt: Attempt) -> str:
        """The end of the error."""
        return farm.last_line(attempt.error)[:120]

    @display(description="Error")  # type: ignore[untyped-decorator]
    def traceback(self, attempt: Attempt) -> SafeString:
        """All of the error."""
        return format_html('<pre class="code">{}</pre>', farm.cut(attempt.error))
