"""What the administration shows of a job: columns of the list, fields of its page."""

from collections.abc import Iterator
from typing import Any, Final

from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.http import urlencode
from django.utils.safestring import SafeString

from core import administration
from jobs import live_queries, operations
from jobs.admin import common
from jobs.domain import labels
from jobs.domain.states import ENDED
from jobs.models import Job
from jobs.queries import lists, pages
from jobs.templatetags import farm
from live import html
from live.templatetags import words

# Fields of a job's page that are left out where there is nothing to say.
MAY_BE_EMPTY: Final = frozenset(
    {
        "group", "unique_key", "concurrency_key", "tagged", "requires", "prefers", "again", "tried_again",
        "submitted_by", "belongs_to", "shown_checkpoint", "result", "live_output", "stages", "lease_expires_at",
    }
    | {"expires_at", "claimed_at", "deadline_at", "ended_at", "runs_on"}
    | {"limit_name", "limit_key", "limit_count", "limit_until"}
)  # fmt: skip


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


def _tried_again(job: Job) -> SafeString | str:
    links = [(common.job_link(again),) for again in pages.retries(job.pk)]
    return format_html_join(" ", "{}", links) or "–"


def _submitted_by(job: Job) -> SafeString | str:
    function = getattr(job, "origin", None)
    if function is None:
        return "–"
    pk = function.function_id
    return administration.link("scheduling_scheduledfunction", pk, f"function #{pk}")


def _belongs_to(job: Job) -> SafeString | str:
    """What of other apps started it, or follows it."""
    links = operations.links(job.pk, viewer=job.__dict__["viewer"])
    rows = [(link.label, link.admin_url, link.text, link.note) for link in links]
    return format_html_join("", '<div>{} <a href="{}">{}</a> {}</div>', rows) or "–"


def _live_output(job: Job) -> SafeString | str:
    """What it writes, live; nothing of one that has ended and wrote nothing."""
    if job.status in ENDED and not job.output.exists():
        return "–"
    return html.wrapper("job-output", {"job_id": job.pk}, audience=live_queries.MEMBER, css="output")


def _stages(job: Job) -> SafeString | str:
    """The details that its attempts reported, and from when on."""
    rows = [
        (attempt, stage.began_at.isoformat(sep=" ", timespec="seconds"), stage.detail)
        for attempt, stages in sorted(pages.stages(job.pk).items(), reverse=True)
        for stage in stages
    ]
    return format_html_join("", "<div>attempt {} · {} · {}</div>", rows) or "–"


def _tagged(job: Job) -> SafeString | str:
    url = reverse("admin:jobs_job_changelist")
    links = [(url, urlencode({"tag_rows__tag": tag}), tag) for tag in job.tags or ()]
    return format_html_join(", ", '<a href="{}?{}">{}</a>', links) or "–"


def _json(value: Any) -> SafeString | str:
    return "–" if value is None else administration.preformatted(farm.pretty(value))


class JobFields(administration.BoundedList):
    """A list of jobs, and what it shows of each."""

    state = administration.shown(
        "Status",
        lambda job: html.wrapper_of_context(
            "job-badge", {"job_id": job.pk}, context={"job": job}, audience=live_queries.OPERATOR
        ),
    )

    def get_changelist(self, request: HttpRequest, **options: Any) -> Any:
        """A bounded list, whose rows show what those of the site show."""
        return _dressed(super().get_changelist(request, **options))

    def get_fieldsets(self, request: HttpRequest, obj: Job | None = None) -> Any:
        """Without rows that would say nothing of this job."""
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None:
            return fieldsets
        shown = [(title, list(self._worth_showing(obj, options["fields"]))) for title, options in fieldsets]
        return [(title, {"fields": rows}) for title, rows in shown if rows]

    def _worth_showing(self, job: Job, rows: list[Any]) -> Iterator[Any]:
        for row in rows:
            names = row if isinstance(row, tuple) else (row,)
            kept = tuple(name for name in names if name not in MAY_BE_EMPTY or self._says(job, name))
            if kept:
                yield kept

    def _says(self, job: Job, name: str) -> bool:
        value = getattr(self, name)(job) if callable(getattr(self, name, None)) else getattr(job, name)
        return value not in (None, "", "–")

    about = administration.shown("About", _about)
    waited = administration.shown("Wait", _waited)
    ran = administration.shown("Run", lambda job: words.took(job.claimed_at, job.ended_at) or "–")
    runs_on = administration.shown(
        "Worker", lambda job: administration.link("jobs_worker", job.worker_id, job.worker_name)
    )
    shown_owner = administration.shown("Owner", lambda job: administration.link("auth_user", job.owner_id, job.owner))
    again = administration.shown("Retry of", lambda job: common.job_link(job.retry_of_id))
    tried_again = administration.shown("Retried as", _tried_again)
    requires = administration.shown(
        "Requires", lambda job: labels.in_words(job.requirement.requires) if job.requirement else "–"
    )
    prefers = administration.shown(
        "Prefers", lambda job: labels.in_words(job.requirement.prefers) if job.requirement else "–"
    )
    tagged = administration.shown("Tags", _tagged)
    submitted_by = administration.shown("Submitted by", _submitted_by)
    belongs_to = administration.shown("Belongs to", _belongs_to)
    live_state = common.live("Status", "job", lambda job: {"job_id": job.pk})
    live_why = common.live("Why it is not running", "job-why", lambda job: {"job_id": job.pk, "queue": job.queue})
    live_output = administration.shown("Output", _live_output)
    stages = administration.shown("Stages", _stages)
    shown_payload = administration.shown("Payload", lambda job: administration.preformatted(farm.pretty(job.payload)))
    shown_checkpoint = administration.shown("Checkpoint", lambda job: _json(job.checkpoint))
    result = administration.shown("Result", lambda job: _json(job.result))


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
