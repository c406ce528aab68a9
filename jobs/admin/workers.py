"""Workers: look, filter, drain and revoke many. One is made, and given labels or a key, on the farm's own pages."""

from collections.abc import Callable
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin

from core import administration, people
from jobs import operations
from jobs.domain.workers import Presence
from jobs.models import Worker
from jobs.queries import fleet

_LABELS = {"revoked": "danger", "live": "success", "drained": "warning", "away": "warning", "never connected": "info"}


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


def _its_jobs(worker: Worker) -> SafeString:
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

    state = administration.shown("Status", _state, label=_LABELS)
    host = administration.shown("Host", lambda worker: getattr(getattr(worker, "facts", None), "host", "–"))
    serves = administration.shown("Serves", lambda worker: worker.owner.get_username() if worker.owner else "everybody")
    shown_labels = administration.shown("Labels", lambda worker: ", ".join(fleet.labels_of(worker)) or "–")

    its_jobs = administration.shown("Jobs", _its_jobs)
    drain_selected = administration.on_each("Drain {}", _changing(operations.drain, "drained"), line=str)
    undrain_selected = administration.on_each("Undrain {}", _changing(operations.undrain, "undrained"), line=str)
    revoke_selected = administration.on_each("Revoke {}", _revoke, line=str)
