"""Jobs: look, search, follow live, cancel, try again."""

from datetime import datetime
from typing import Any, Final

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString

from core import administration, people
from core.values import row_id
from jobs import operations
from jobs.admin import common
from jobs.admin.job_fields import JobFields
from jobs.domain.states import ENDED, Status
from jobs.models import Attempt, Input, Job, JobQuerySet, ResultFile, with_status
from jobs.queries import fleet, lists, pages, reports
from jobs.templatetags import farm
from postgres import clock


class StatusFilter(admin.SimpleListFilter):
    """Jobs that stand so. What an index leads to is found however old it is."""

    title = parameter_name = "status"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002  # the admin's
        return [(status.value, status.replace("_", " ")) for status in Status]

    @property
    def leads(self) -> bool:
        """Successes are most of the jobs, and have no index of their own."""
        return self.value() in set(Status) - {Status.SUCCESS}

    def queryset(self, request: HttpRequest, queryset: QuerySet[Job]) -> QuerySet[Job]:  # noqa: ARG002
        """Those; of what waits or runs the ids, while they are few: they may be the oldest of millions."""
        status = self.value()
        if status not in set(Status):
            return queryset
        matching = queryset.filter(with_status(str(status)))
        return matching if self._live is None else matching.filter(pk__in=self._live)

    @cached_property
    def _live(self) -> list[int] | None:
        status = self.value()
        return lists.live_ids(str(status)) if status in {Status.PENDING, Status.IN_PROGRESS} else None


FILTERS: Final = [
    StatusFilter,
    administration.known("kind", "kind", pages.known_kinds),
    administration.known("queue", "queue", fleet.known_queues),
    administration.known("tag", "tag_rows__tag", lists.recent_tags, leads=True),
    administration.by_day("created_at", leads=True),
    administration.by_day("outcome__ended_at"),
]


class AttemptInline(administration.Part):
    model = Attempt
    fields = ["number", "outcome", "worker_name", "claimed_at", "ended_at", "error_text", "output"]
    ordering = ["-number"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Attempt]:
        rows: QuerySet[Attempt] = super().get_queryset(request)
        return rows.annotate(wrote=reports.wrote())

    error_text = administration.shown(
        "Error", lambda attempt: administration.folded(farm.last_line(attempt.error), farm.cut(attempt.error))
    )
    output = administration.shown(
        "Output", lambda attempt: common.output_link(attempt.job_id, attempt.number) if attempt.wrote else "–"
    )


def _link(file: ResultFile) -> SafeString:
    url = reverse("jobs:file", args=[file.job_id, file.name])
    return format_html('<a href="{}?fence={}">{}</a>', url, file.attempt, file.name)


class FileInline(administration.Part):
    model = ResultFile
    fields = ["link", "attempt", "size", "sha256", "created_at"]
    ordering = ["attempt", "name"]

    link = administration.shown("File", _link)


class InputInline(administration.Part):
    model = Input
    verbose_name_plural = "input files"
    fields = ["link", "filename", "size", "sha256"]
    ordering = ["name"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Input]:
        rows: QuerySet[Input] = super().get_queryset(request)
        return rows.select_related("upload")

    link = administration.shown(
        "File",
        lambda file: format_html(
            '<a href="{}">{}</a>', reverse("jobs:input", args=[file.job_id, file.name]), file.name
        ),
    )


def _cancel(request: HttpRequest, job: Job) -> str:
    return operations.cancel(job.pk, by=people.person(request)).verdict.value.replace("_", " ")


def _retry(request: HttpRequest, job: Job) -> str:
    operations.retry(job.pk, by=people.person(request), once=True)
    return "retried"


def _run_now(request: HttpRequest, job: Job) -> str:
    operations.run_now(job.pk, by=people.person(request))
    return "due now"


def _fitting(job: Job, *, now: datetime) -> set[str]:
    """The actions, by their paths, that change something of it as it stands."""
    if job.status in ENDED:
        return {"retry"}
    is_later = job.status == Status.PENDING and job.run_at > now
    return {"cancel", "run-now"} if is_later else {"cancel"}


@admin.register(Job)
class JobAdmin(common.Operated, JobFields):
    """Every job. What has happened stays as it is; what is to come changes by canceling and trying again."""

    list_display = ["id", "kind", "about", "state", "waited", "ran", "queue", "runs_on", "shown_owner", "created_at"]
    list_display_links = ["id", "kind"]
    list_filter = FILTERS
    led_lookups = frozenset({"owner", "group", "retry_of"})
    search_fields = ["id", "kind", "unique_key"]
    search_help_text = "An id, a kind, or a complete unique key"
    fieldsets = [
        (None, {"fields": ["live_state", "live_why"]}),
        ("Output", {"fields": ["live_output"]}),
        ("Job", {"fields": [
            ("kind", "queue"), ("shown_owner", "group"), ("priority", "unique_key", "concurrency_key"), "tagged",
            ("requires", "prefers"), ("again", "tried_again", "submitted_by"), "belongs_to",
            "shown_payload", "shown_checkpoint", "result",
        ]}),
        ("Progress", {"fields": [
            ("fence", "failures", "max_attempts"), ("runs_on", "lease_expires_at"),
            ("created_at", "run_at", "expires_at"), ("claimed_at", "deadline_at", "ended_at"),
            ("limit_name", "limit_key"), ("limit_count", "limit_until"), "stages",
        ]}),
    ]  # fmt: skip
    inlines = [AttemptInline, InputInline, FileInline]
    actions = ["cancel_selected", "retry_selected"]
    actions_detail = ["cancel_one", "retry_one", "run_now_one"]

    class Media(common.LiveMedia):
        """Its page is live."""

    def get_actions_detail(self, request: HttpRequest, object_id: int | str) -> list[Any]:
        """Those that can change something of this job as it stands."""
        job = self.get_object(request, str(object_id))
        fitting = set() if job is None else _fitting(job, now=clock.now())
        return [each for each in super().get_actions_detail(request, object_id) if each.path in fitting]

    view_on_site = administration.on_site("jobs:job")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        """With payload and result only where one job is shown."""
        jobs: JobQuerySet = super().get_queryset(request).select_related("owner")
        match = request.resolver_match
        return (
            jobs.whole().select_related("group", "origin", "requirement")
            if match and "object_id" in match.kwargs
            else jobs
        )

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Job | None:
        """With who looks at it, whose rights say what `belongs_to` shows."""
        job: Job | None = super().get_object(request, object_id, from_field)
        if job is not None:
            job.__dict__["viewer"] = request.user
        return job

    def finds_exactly(self, term: str) -> bool:
        return row_id(term) is not None

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Job], search_term: str  # noqa: ARG002
    ) -> tuple[QuerySet[Job], bool]:  # fmt: skip
        """An id, or whole words among the jobs that a list scans."""
        term, job_id = search_term.strip(), row_id(search_term)
        if not term:
            return queryset, False
        condition = Q(kind=term) | Q(unique_key=term) if job_id is None else Q(pk=job_id)
        return queryset.filter(condition), False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The list; the number of a job as what is searched for leads to its page."""
        job_id = row_id(request.GET.get("q", ""))
        if request.method == "GET" and job_id is not None and Job.objects.filter(pk=job_id).exists():
            return HttpResponseRedirect(reverse("admin:jobs_job_change", args=[job_id]))
        return super().changelist_view(request, extra_context)  # type: ignore[no-any-return]  # unfold ships no types

    def get_inlines(self, request: HttpRequest, obj: Job | None = None) -> Any:  # noqa: ARG002  # the admin's
        if obj is None:
            return self.inlines
        has = {AttemptInline: obj.attempts.exists, InputInline: obj.input_files.exists, FileInline: obj.files.exists}
        return [inline for inline in self.inlines if has[inline]()]

    cancel_selected = administration.on_each("Cancel {}", _cancel)
    cancel_one = administration.on_one("Cancel {}", _cancel)
    retry_selected = administration.on_each("Retry {}", _retry)
    retry_one = administration.on_one("Retry {}", _retry)
    run_now_one = administration.on_one("Run {} now", _run_now)
