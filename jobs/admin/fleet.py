"""Queues, paused and resumed; who has how large a share, how much, and whose jobs are paused; workers, drained and
revoked (one is made, and given labels or a key, on the farm's own pages); health scores."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin

from core import administration, people
from jobs import operations
from jobs.domain.quotas import Quota
from jobs.domain.workers import Presence
from jobs.models import ALL_JOBS, ConcurrencyKey, HealthScore, PausedOwner, Queue, Usage, Weight, Worker
from jobs.operations import quotas
from jobs.queries import fleet
from jobs.templatetags.farm import amount


def _pause(request: HttpRequest, row: Any) -> str:
    (operations.pause if isinstance(row, Queue) else operations.pause_key)(row.pk, by=people.person(request))
    return "paused"


def _resume(request: HttpRequest, row: Any) -> str:
    (operations.resume if isinstance(row, Queue) else operations.resume_key)(row.pk, by=people.person(request))
    return "resumed"


class Pausable(administration.Operated):
    """Rows whose waiting jobs may be paused: queues and concurrency keys."""

    operate = "jobs.operate_job"
    actions = ["pause", "resume"]

    state = administration.shown(
        "Status", lambda row: "paused" if row.paused_at else "open", label={"paused": "warning", "open": "success"}
    )
    pause = administration.on_each("Pause {}", _pause, line=str)
    resume = administration.on_each("Resume {}", _resume, line=str)


@admin.register(Queue)
class QueueAdmin(administration.OnSite, Pausable, administration.ReadOnly):
    """Where jobs wait. A queue exists once a kind or a worker names it, and stays."""

    page = "jobs:queue"
    list_display = ["name", "state", "ceiling", "fair", "its_jobs", "created_at"]
    list_filter = [("paused_at", admin.EmptyFieldListFilter), "fair"]
    search_fields = ["name"]
    its_jobs = administration.shown("Jobs", lambda row: administration.listed("jobs_job", "jobs", queue=row.name))


@admin.register(Weight)
class WeightAdmin(ModelAdmin):  # type: ignore[misc]
    """How large a person's or a group's share of every fair queue is; without a row it is 1."""

    list_display = ["__str__", "owner", "group", "weight"]
    list_select_related = ["owner", "group"]
    search_fields = ["owner__username", "group__name"]
    raw_id_fields = ["owner", "group"]


@admin.register(PausedOwner)
class PausedOwnerAdmin(ModelAdmin):  # type: ignore[misc]
    """People whose jobs are paused: who is added here waits, who is deleted goes on."""

    list_display = ["owner", "paused_at", "paused_by"]
    list_select_related = ["owner", "paused_by"]
    search_fields = ["owner__username"]
    fields = autocomplete_fields = ["owner"]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        return False

    def save_model(self, request: HttpRequest, obj: PausedOwner, form: Any, change: bool) -> None:  # noqa: ARG002
        operations.pause_owner(obj.owner, by=people.person(request))

    def delete_model(self, request: HttpRequest, obj: PausedOwner) -> None:
        operations.resume_owner(obj.owner, by=people.person(request))

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[PausedOwner]) -> None:
        for row in queryset:
            self.delete_model(request, row)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> LogEntry | None:  # noqa: ARG002
        """Nothing: the operation has written its own line, in the person's history."""
        return None


@admin.register(ConcurrencyKey)
class ConcurrencyKeyAdmin(Pausable, administration.ReadOnly):
    """Concurrency keys of jobs that are there, or were lately: how many run at a time (kinds and queues say that)."""

    list_display = ["name", "kind", "queue", "bound", "state", "paused_by", "used_at"]
    list_select_related = ["paused_by"]
    list_filter = [("paused_at", admin.EmptyFieldListFilter), "kind", "queue"]
    search_fields = ["name"]
    fields = ["name", "kind", "queue", "bound", "state", "paused_by", "used_at"]


_COLOURS = {"revoked": "danger", "live": "success", "drained": "warning", "away": "warning", "never connected": "info"}


class LabelFilter(admin.SimpleListFilter):
    title = parameter_name = "label"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:  # noqa: ARG002  # the admin's
        return [(label, label) for label in fleet.known_labels()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Worker]) -> QuerySet[Worker]:  # noqa: ARG002
        return queryset if self.value() is None else fleet.with_label(queryset, str(self.value()))


def _state(worker: Worker) -> str:
    """Whether it is there, as on the pages; of one that is there, whether it is drained."""
    there = fleet.presence_of(worker, now=worker.read_at)
    if there is Presence.AWAY:
        return "away"
    return "drained" if there is Presence.LIVE and worker.drained_at else there.replace("_", " ")


def _its_work(worker: Worker) -> SafeString:
    tables = {"jobs_job": "jobs", "jobs_attempt": "failed attempts"}
    return format_html("{}, {}", *(administration.listed(*each, worker=worker.pk) for each in tables.items()))


def _changing(operation: Callable[..., bool], word: str) -> Callable[[HttpRequest, Worker], str]:
    return lambda request, worker: word if operation(worker, by=people.person(request)) else "not changed"


def _revoke(request: HttpRequest, worker: Worker) -> str:
    operations.revoke(worker, by=people.person(request))
    return "revoked"


@admin.register(Worker)
class WorkerAdmin(administration.OnSite, administration.Operated, ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    """Who may claim jobs. Keys are stored hashed."""

    operate, page = "jobs.operate_job", "jobs:worker"

    list_display = ["name", "state", "host", "serves", "queues", "steals", "shown_labels", "its_jobs", "last_seen_at"]
    list_filter = [("revoked_at", admin.EmptyFieldListFilter), ("drained_at", admin.EmptyFieldListFilter), LabelFilter]
    list_select_related = ["owner", "facts"]
    search_fields = ["name", "owner__username", "key_hint", "facts__host"]
    paginator = administration.Counted
    show_full_result_count = False
    actions = ["drain_selected", "undrain_selected", "revoke_selected"]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  # the admin's
        """Never: another name or scope is another worker."""
        return False

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002  # the admin's signature
        """Never: its key is shown on the farm's own page, once."""
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Worker]:
        """With the database's now beside each, which its presence is judged by."""
        return super().get_queryset(request).annotate(read_at=Now())  # type: ignore[no-any-return]

    def delete_model(self, request: HttpRequest, obj: Worker) -> None:
        """Revoke it first, so that its open sockets end; its jobs keep its name."""
        operations.revoke(obj, by=people.person(request))
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        for worker in queryset:
            self.delete_model(request, worker)

    state = administration.shown("Status", _state, label=_COLOURS)
    host = administration.shown("Host", lambda worker: getattr(getattr(worker, "facts", None), "host", "–"))
    serves = administration.shown("Serves", lambda worker: worker.owner.get_username() if worker.owner else "everybody")
    shown_labels = administration.shown("Labels", lambda worker: ", ".join(fleet.labels_of(worker)) or "–")

    its_jobs = administration.shown("Jobs", _its_work)
    drain_selected = administration.on_each("Drain {}", _changing(operations.drain, "drained"), line=str)
    undrain_selected = administration.on_each("Undrain {}", _changing(operations.undrain, "undrained"), line=str)
    revoke_selected = administration.on_each("Revoke {}", _revoke, line=str)


def _amount(title: str, resource: str, field: str) -> Any:
    """A column with how much of this there is, and how much may be."""

    def cell(row: Usage) -> str:
        of = "farm" if row.pk == ALL_JOBS else "owner"
        allowed = quotas.allowed(operations.setting_of(resource, of=of))
        return amount(Quota(resource=resource, of=of, quota=allowed, used=max(0, getattr(row, field))))

    return administration.shown(title, cell, ordering=field)


@admin.register(Usage)
class UsageAdmin(administration.ReadOnly):
    """As it was measured last, some seconds ago. Whose jobs have nothing is not in it."""

    list_display = ["whose", "waiting_jobs", "output", "number_of_files", "size_of_files"]
    search_fields = ["owner__username"]
    search_help_text = "A name"
    ordering = ["-file_bytes", "-output_bytes", "-waiting", "pk"]
    fields = [*list_display, "person", "its_jobs"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Usage]:
        """Each with the person's name. The farm's row has none, so a join would lose it."""
        named = User.objects.filter(pk=OuterRef("pk")).values("username")
        rows: QuerySet[Usage] = super().get_queryset(request).annotate(username=Subquery(named))
        return rows

    whose = administration.shown(
        "Owner",
        lambda row: "All jobs" if row.pk == ALL_JOBS else row.username or f"{row.pk}, who is gone",
        ordering="username",
    )
    person = administration.shown(
        "Person",
        lambda row: administration.link("auth_user", row.pk, row.username) if row.username else "nobody's alone",
    )
    waiting_jobs = _amount("Pending jobs", "waiting jobs", "waiting")
    output = _amount("Output", "bytes of output", "output_bytes")
    number_of_files = _amount("Files", "files", "files")
    size_of_files = _amount("Bytes of files", "bytes of files", "file_bytes")
    its_jobs = administration.shown(
        "Jobs", lambda row: administration.listed("jobs_job", "jobs", **{} if row.pk == ALL_JOBS else {"owner": row.pk})
    )


@admin.register(HealthScore)
class HealthScoreAdmin(administration.BoundedList):
    list_display = ["day", "subject", "name", "score", "ended", "latency_p50_s", "latency_p95_s", "backlog"]
    list_filter = ["subject", administration.by_day("day")]
    search_fields = ["name"]
