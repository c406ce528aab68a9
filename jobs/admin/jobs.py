"""Jobs: look, search, follow live, cancel, try again."""

from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import TabularInline
from unfold.decorators import action, display

from jobs import live_queries, operations
from jobs.admin import common
from jobs.domain.states import Status
from jobs.errors import JobsError
from jobs.models import Attempt, Job, ResultFile
from jobs.queries import lines, pages
from jobs.templatetags import farm
from live import html
from ratelimits.errors import RateLimitsError

AT_ONCE: Final = 1000  # jobs that one action touches; the message says when more match
COLOURS: Final = {
    Status.PENDING: "default",
    Status.IN_PROGRESS: "info",
    Status.SUCCESS: "success",
    Status.FAILED: "danger",
    Status.CANCELED: "default",
    Status.TIMED_OUT: "warning",
}


class _KnownValues(admin.SimpleListFilter):
    """A filter by a name. The names are asked of their own small table: DISTINCT would read all jobs."""

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:  # noqa: ARG002  # the admin's
        """The jobs with the chosen name."""
        return queryset.filter(**{self.parameter_name or "": self.value()}) if self.value() else queryset


class KindFilter(_KnownValues):
    """Jobs of one kind."""

    title = "kind"
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002
        """All kinds."""
        return [(name, name) for name in pages.known_kinds()]


class QueueFilter(_KnownValues):
    """Jobs of one queue."""

    title = "queue"
    parameter_name = "queue"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002
        """All queues."""
        return [(name, name) for name in lines.known_queues()]


class _Part(TabularInline):  # type: ignore[misc]  # unfold ships no types
    """Rows that belong to a job, to look at."""

    extra = 0
    can_delete = False
    show_change_link = False

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Never."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Never."""
        return False


class AttemptInline(_Part):
    """The attempts that ended without success."""

    model = Attempt
    fields = ["number", "outcome", "worker_name", "claimed_at", "ended_at", "what_went_wrong"]
    readonly_fields = fields
    ordering = ["-number"]

    @display(description="Error")  # type: ignore[untyped-decorator]
    def what_went_wrong(self, attempt: Attempt) -> SafeString | str:
        """The error, its traceback folded away."""
        return _folded(attempt.error)


class FileInline(_Part):
    """The files that its attempts handed in."""

    model = ResultFile
    fields = ["link", "attempt", "size", "sha256", "created_at"]
    readonly_fields = fields
    ordering = ["attempt", "name"]

    @display(description="File")  # type: ignore[untyped-decorator]
    def link(self, file: ResultFile) -> SafeString:
        """The file, to look at or to save."""
        url = reverse("jobs:file", args=[file.job_id, file.name])
        return format_html('<a href="{}?attempt={}">{}</a>', url, file.attempt, file.name)


@admin.register(Job)
class JobAdmin(common.ReadOnly):
    """Every job. What has happened stays as it is; what is to come changes by canceling and trying again."""

    list_display = ["id", "kind", "queue", "state", "worker_name", "owner", "created_at", "ended_at"]
    list_display_links = ["id", "kind"]
    list_filter = ["status", KindFilter, QueueFilter, "ended_at"]
    list_select_related = ["owner"]
    sortable_by = ["id"]
    show_facets = admin.ShowFacets.NEVER
    search_fields = ["id", "kind", "unique_key"]
    search_help_text = "An id, a kind, or a whole unique key"
    fieldsets = [
        (None, {"fields": ["live_state", "live_why"]}),
        ("Output", {"fields": ["live_output"]}),
        ("What it is", {"fields": [
            ("kind", "queue"), ("owner", "group"), ("priority", "unique_key"), "retry_of", "payload", "result"
        ]}),
        ("How it goes", {"fields": [
            ("claim_no", "failures", "max_attempts"), ("worker_name", "lease_expires_at"),
            ("created_at", "run_at", "expires_at"), ("claimed_at", "deadline_at", "ended_at"),
            ("limit_name", "limit_key", "limit_count", "limit_until"),
        ]}),
    ]  # fmt: skip
    readonly_fields = ["live_state", "live_why", "live_output", "payload", "result"]
    inlines = [AttemptInline, FileInline]
    actions = ["cancel_selected", "retry_selected"]
    actions_detail = ["cancel_one", "retry_one"]

    class Media(common.LiveMedia):
        """Its page is live."""

    def view_on_site(self, obj: Job) -> str:
        """Its page outside of the administration."""
        return reverse("jobs:job", args=[obj.pk])

    def has_operate_permission(self, request: HttpRequest, object_id: Any = None) -> bool:  # noqa: ARG002
        """Who may cancel jobs and try them again."""
        return request.user.has_perm("jobs.operate_job")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        """With payload and result only where one job is shown."""
        jobs: QuerySet[Job] = super().get_queryset(request)
        match = request.resolver_match
        return jobs.select_related("body", "group") if match and "object_id" in match.kwargs else jobs

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Job], search_term: str  # noqa: ARG002
    ) -> tuple[QuerySet[Job], bool]:  # fmt: skip
        """Whole words only: what an index or a short walk finds."""
        term = search_term.strip()
        if not term:
            return queryset, False
        found = Q(kind=term) | Q(unique_key=term)
        if term.isascii() and term.isdigit() and len(term) <= 18:
            found |= Q(pk=int(term))
        return queryset.filter(found), False

    @display(description="Status", label=COLOURS)  # type: ignore[untyped-decorator]
    def state(self, job: Job) -> tuple[str, str]:
        """The status in its colour, and how far a running job is."""
        share = (
            f" {job.progress:.0%}" if job.status == Status.IN_PROGRESS and job.progress is not None else ""
        )
        return job.status, f"{job.get_status_display()}{share}"

    @display(description="State")  # type: ignore[untyped-decorator]
    def live_state(self, job: Job) -> SafeString:
        """Status, stage and progress, live."""
        return html.wrapper("job", {"job_id": job.pk}, audience=live_queries.MEMBER)

    @display(description="Waits because")  # type: ignore[untyped-decorator]
    def live_why(self, job: Job) -> SafeString:
        """Why it does not run, live."""
        return html.wrapper("job-why", {"job_id": job.pk, "queue": job.queue}, audience=live_queries.MEMBER)

    @display(description="Of the latest attempt")  # type: ignore[untyped-decorator]
    def live_output(self, job: Job) -> SafeString:
        """What it writes, live."""
        return html.wrapper("job-output", {"job_id": job.pk}, audience=live_queries.MEMBER, css="output")

    @display(description="Payload")  # type: ignore[untyped-decorator]
    def payload(self, job: Job) -> SafeString:
        """What was asked for."""
        return format_html('<pre class="code">{}</pre>', farm.pretty(job.body.payload))

    @display(description="Result")  # type: ignore[untyped-decorator]
    def result(self, job: Job) -> SafeString | str:
        """What came of it."""
        result = job.body.result
        return "–" if result is None else format_html('<pre class="code">{}</pre>', farm.pretty(result))

    @admin.action(description="Cancel", permissions=["operate"])
    def cancel_selected(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        """Cancel each, after a question that says how they stand; then say what it came to, by verdict."""
        return self._each(request, queryset, title="Cancel these jobs?", button="Cancel them", deed=_cancel)

    @admin.action(description="Try again", permissions=["operate"])
    def retry_selected(self, request: HttpRequest, queryset: QuerySet[Job]) -> HttpResponse | None:
        """Submit each ended one once more, after a question; then say what it came to."""
        return self._each(
            request, queryset, title="Try these jobs again?", button="Try them again", deed=_retry
        )

    @action(description="Cancel", url_path="cancel", permissions=["operate"])  # type: ignore[untyped-decorator]
    def cancel_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Cancel this one, after a question."""
        return self._one(request, object_id, title="Cancel this job?", button="Cancel it", deed=_cancel)

    @action(description="Try again", url_path="retry", permissions=["operate"])  # type: ignore[untyped-decorator]
    def retry_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Submit this one once more, after a question."""
        return self._one(request, object_id, title="Try this job again?", button="Try it again", deed=_retry)

    def _each(
        self, request: HttpRequest, queryset: QuerySet[Job], *, title: str, button: str, deed: "Deed"
    ) -> HttpResponse | None:
        chosen = list(queryset.order_by("pk").values_list("pk", "status")[: AT_ONCE + 1])
        some = chosen[:AT_ONCE]
        if not common.is_confirmed(request):
            return common.question(self, request, title=title, lines=_preview(chosen), button=button)
        came_to = Counter(deed(request, job_id) for job_id, _ in some)
        self.message_user(request, _counted(came_to), messages.SUCCESS)
        if len(chosen) > AT_ONCE:
            sentence = f"More jobs match: these were the first {AT_ONCE}. Do it once more for the next ones."
            self.message_user(request, sentence, messages.WARNING)
        return None

    def _one(
        self, request: HttpRequest, object_id: str, *, title: str, button: str, deed: "Deed"
    ) -> HttpResponse:
        job = self.get_object(request, object_id)
        if job is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[no-any-return]
        if not common.is_confirmed(request):
            return common.question(
                self, request, title=title, lines=_preview([(job.pk, job.status)]), button=button
            )
        self.message_user(request, _counted(Counter([deed(request, job.pk)])), messages.SUCCESS)
        return HttpResponseRedirect(reverse("admin:jobs_job_change", args=[job.pk]))


Deed = Callable[[HttpRequest, int], str]


def _cancel(request: HttpRequest, job_id: int) -> str:
    try:
        return operations.cancel(job_id, by=common.person(request)).verdict.value.replace("_", " ")
    except JobsError as refusal:
        return refusal.message


def _retry(request: HttpRequest, job_id: int) -> str:
    try:
        operations.retry(job_id, by=common.person(request))
    except (JobsError, RateLimitsError) as refusal:
        return refusal.message
    return "submitted once more"


def _preview(chosen: list[tuple[int, str]]) -> list[str]:
    """What the deed is about to meet: how many jobs, and how they stand at this moment."""
    standing = Counter(status.replace("_", " ") for _, status in chosen[:AT_ONCE])
    lines = [f"{count} {status}" for status, count in sorted(standing.items())]
    return (
        [*lines, f"and more, which stay as they are: {AT_ONCE} at a time"] if len(chosen) > AT_ONCE else lines
    )


def _counted(came_to: Counter[str]) -> str:
    return "; ".join(f"{count} {what}" for what, count in came_to.most_common()) or "Nothing was selected."


def _folded(error: str) -> SafeString | str:
    if not error:
        return "–"
    text = farm.cut(error)
    return format_html(
        "<details><summary>{}</summary><pre class='code'>{}</pre></details>", farm.last_line(error), text
    )
