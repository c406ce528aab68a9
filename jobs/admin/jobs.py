"""Jobs and their attempts, to search, follow live, cancel and retry, and bulk actions on them; each is shown on its
page of the site."""

from typing import Any, Final

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.db.models.functions import Right
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.utils.safestring import SafeString

from core import administration, people
from core.values import row_id
from jobs import live_queries, operations
from jobs.domain.bulks import Phase
from jobs.domain.states import Status
from jobs.errors import AlreadyRetried
from jobs.models import Attempt, Bulk, Job, with_status
from jobs.queries import fleet, lists, pages
from jobs.templatetags import farm
from live import html
from live.templatetags import words


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


def _about(job: Job) -> SafeString:
    """What it is about, and how its last attempt failed."""
    error = farm.last_line(getattr(job, "last_error", None) or "")
    excerpt = getattr(job, "excerpt", None) or ""
    return format_html('<div class="about">{}</div><div class="about error">{}</div>', excerpt, error)


def _waited(job: Job) -> str:
    """From when it was due to its last claim; nothing while it waits for another."""
    if job.claimed_at is not None and job.claimed_at < job.run_at:
        return "–"
    return words.took(job.run_at, job.claimed_at) or "–"


def _cancel(request: HttpRequest, job: Job) -> str:
    return operations.cancel(job.pk, by=people.person(request)).verdict.value.replace("_", " ")


def _retry(request: HttpRequest, job: Job) -> str:
    try:
        operations.retry(job.pk, by=people.person(request), once=True)
    except AlreadyRetried:
        return "retried before, left out"
    return "retried"


@admin.register(Job)
class JobAdmin(administration.OnSite, administration.Operated, administration.BoundedList):
    """Every job, in rows as those of the site."""

    operate, page = "jobs.operate_job", "jobs:job"

    list_display = ["id", "kind", "about", "state", "waited", "ran", "queue", "runs_on", "shown_owner", "created_at"]
    list_display_links = ["id", "kind"]
    list_filter = FILTERS
    led_lookups = frozenset({"owner", "group", "retry_of"})
    search_fields = ["id", "kind", "unique_key"]
    search_help_text = "An id, a kind, or a complete unique key"
    actions = ["cancel_selected", "retry_selected"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Job]:
        return super().get_queryset(request).select_related("owner")  # type: ignore[no-any-return]

    def get_changelist(self, request: HttpRequest, **options: Any) -> Any:
        """A bounded list, whose rows show what those of the site show."""
        return _dressed(super().get_changelist(request, **options))

    def finds_exactly(self, term: str) -> bool:
        return row_id(term) is not None

    def search(self, rows: QuerySet[Job], term: str) -> QuerySet[Job]:
        """An id, or whole words among the jobs that a list scans."""
        job_id = row_id(term)
        return rows.filter(Q(kind=term) | Q(unique_key=term) if job_id is None else Q(pk=job_id))

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The list; the number of a job as what is searched for leads to its page."""
        job_id = row_id(request.GET.get("q", ""))
        if request.method == "GET" and job_id is not None and Job.objects.filter(pk=job_id).exists():
            return redirect("jobs:job", job_id)
        return super().changelist_view(request, extra_context)  # type: ignore[no-any-return]  # unfold ships no types

    state = administration.shown(
        "Status",
        lambda job: html.wrapper_of_context(
            "job-badge", {"job_id": job.pk}, context={"job": job}, audience=live_queries.OPERATOR
        ),
    )
    about = administration.shown("About", _about)
    waited = administration.shown("Wait", _waited)
    ran = administration.shown("Run", lambda job: words.took(job.claimed_at, job.ended_at) or "–")
    runs_on = administration.shown(
        "Worker", lambda job: administration.link("jobs_worker", job.worker_id, job.worker_name)
    )
    shown_owner = administration.shown("Owner", lambda job: administration.link("auth_user", job.owner_id, job.owner))
    cancel_selected = administration.on_each("Cancel {}", _cancel)
    retry_selected = administration.on_each("Retry {}", _retry)


def _dressed(base: type[Any]) -> type[Any]:
    """The list of this class, with `excerpt` and `last_error` of the rows that one page shows: one more statement."""

    class Dressed(base):  # type: ignore[misc]  # unfold ships no types
        def get_results(self, request: HttpRequest) -> None:
            super().get_results(request)
            rows = list(self.result_list)
            jobs: QuerySet[Any] = lists.dressed(Job.objects.filter(pk__in=[job.pk for job in rows]))
            added = {pk: more for pk, *more in jobs.values_list("pk", "excerpt", "last_error")}
            for job in rows:
                job.excerpt, job.last_error = (each or "" for each in added.get(job.pk, ("", "")))
            self.result_list: Any = rows

    return Dressed


COLOURS: Final[dict[str, str]] = {Phase.DONE: "success", Phase.STOPPED: "warning"}


@admin.register(Bulk)
class BulkAdmin(administration.OnSite, administration.BoundedList):
    """They are begun, stopped and undone on the farm's own pages."""

    page = "jobs:bulk"

    list_display = ["id", "action", "value", "how", "by", "matched", "changed", "created_at", "ended_at"]
    list_display_links = ["id", "action"]
    list_filter = ["action", "phase", administration.by_day("created_at")]
    list_select_related = ["by"]
    search_fields = ["=id", "=by__username"]
    how = administration.shown(
        "Status", lambda bulk: (bulk.phase, farm.PHASES[Phase(bulk.phase)]["label"]), label=COLOURS
    )


ENDING: Final = 500  # characters at the end of an error, among which its last line is looked for
_COLOURS: Final = {"failed": "danger", "timed_out": "warning"}
_OUTCOME_COLOURS: Final[dict[str, str]] = {
    outcome: _COLOURS.get(badge["status"], "default") for outcome, badge in farm.OUTCOMES.items()
}


@admin.register(Attempt)
class AttemptAdmin(administration.OnSite, administration.BoundedList):
    """Each leads to the page of its job, which shows it among the others."""

    page = "jobs:job"

    list_display = ["id", "job_link", "number", "how", "worker_link", "ended_at", "last_words"]
    list_filter = ["outcome", administration.by_day("ended_at", leads=True)]
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
        "Outcome", lambda attempt: (attempt.outcome, attempt.get_outcome_display()), label=_OUTCOME_COLOURS
    )
    worker_link = administration.shown(
        "Worker", lambda row: administration.link("jobs_worker", row.worker_id, row.worker_name)
    )
    job_link = administration.shown(
        "Job", lambda attempt: administration.link("jobs_job", attempt.job_id, f"#{attempt.job_id}")
    )
    last_words = administration.shown("Error", lambda attempt: farm.last_line(attempt.ending)[:120])
