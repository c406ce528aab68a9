"""Workers: make one, see what it does, give it a new key, revoke it."""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.postgres.forms import SimpleArrayField
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold.admin import ModelAdmin
from unfold.decorators import action
from unfold.widgets import UnfoldAdminTextInputWidget

from core import administration, people
from jobs import operations
from jobs.admin import common
from jobs.domain import kinds
from jobs.domain.workers import Presence
from jobs.models import Worker
from jobs.operations.queues import ANY_QUEUE
from jobs.queries import fleet


class WorkerForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's own class takes no parameter
    """A new worker. Its key is made by the farm."""

    queues = SimpleArrayField(
        forms.CharField(max_length=100),
        widget=UnfoldAdminTextInputWidget,
        help_text="Home queues, in the order they are served, with commas between them.",
    )
    steals = SimpleArrayField(
        forms.CharField(max_length=100),
        widget=UnfoldAdminTextInputWidget,
        required=False,
        help_text="Queues it takes from when idle; * means every other queue.",
    )

    class Meta:
        model = Worker
        fields = ("name", "owner", "queues", "steals")

    def clean_queues(self) -> list[str]:
        return self._named("queues")

    def clean_steals(self) -> list[str]:
        return self._named("steals", ANY_QUEUE)

    def _named(self, field: str, *also: str) -> list[str]:
        names: list[str] = self.cleaned_data[field]
        for name in names:
            if name not in also and not kinds.NAME.fullmatch(name):
                raise forms.ValidationError(f"A queue is named by a-z 0-9 _ . - (at most 100), not “{name}”.")
        return names


_DRAINED = "It finishes what it holds, and is given no more jobs until it is undrained."
_UNDRAINED = "It is given jobs again."
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


def _host(worker: Worker) -> str:
    facts = getattr(worker, "facts", None)
    return facts.host if facts else "–"


def _its_jobs(worker: Worker) -> SafeString:
    addresses = [reverse(f"admin:jobs_{table}_changelist") for table in ("job", "attempt")]
    markup = '<a href="{}?worker={}">jobs</a>, <a href="{}?worker={}">failed attempts</a>'
    return format_html(markup, addresses[0], worker.pk, addresses[1], worker.pk)


@admin.register(Worker)
class WorkerAdmin(common.Operated, ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    """Who may claim jobs. Keys are stored hashed and shown once."""

    form = WorkerForm
    list_display = ["name", "state", "host", "serves", "queues", "steals", "shown_labels", "its_jobs", "last_seen_at"]
    list_filter = [("revoked_at", admin.EmptyFieldListFilter), ("drained_at", admin.EmptyFieldListFilter), LabelFilter]
    list_select_related = ["owner", "facts"]
    search_fields = ["name", "owner__username", "key_hint", "facts__host"]
    paginator = administration.Counted
    show_full_result_count = False
    autocomplete_fields = ["owner"]
    add_fieldsets = [(None, {"fields": ["name", "owner", "queues", "steals"]})]
    fields = [
        "name", "live_state", "its_jobs", "owner", "queues", "steals", "shown_labels", "key_hint", "created_at",
        "last_seen_at", "revoked_at",
    ]  # fmt: skip
    readonly_fields = ["live_state", "its_jobs", "shown_labels"]
    actions = ["drain_selected", "undrain_selected", "revoke_selected"]
    actions_detail = ["drain_one", "undrain_one", "label_one", "rotate_one", "revoke_one"]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002  # the admin's
        """Never: another name or scope is another worker."""
        return False

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.has_operate_permission(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Worker]:
        """With the database's now beside each, which its presence is judged by."""
        return super().get_queryset(request).annotate(read_at=Now())  # type: ignore[no-any-return]

    def save_model(self, request: HttpRequest, obj: Worker, form: Any, change: bool) -> None:  # noqa: ARG002
        """Make it; the key is kept on the object for the answer alone."""
        worker, key = operations.create_worker(obj.name, queues=obj.queues, steals=obj.steals, owner=obj.owner)
        obj.pk = worker.pk
        obj.refresh_from_db()
        obj.__dict__["shown_once"] = key

    def response_add(self, request: HttpRequest, obj: Worker, post_url_continue: Any = None) -> HttpResponse:  # noqa: ARG002
        """The key, in the answer itself: a message would carry it through a cookie."""
        return common.key_page(self, request, worker=obj, key=obj.__dict__["shown_once"])

    def delete_model(self, request: HttpRequest, obj: Worker) -> None:
        """Revoke it first, so that its open sockets end; its jobs keep its name."""
        operations.revoke(obj, by=people.person(request))
        super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        for worker in queryset:
            self.delete_model(request, worker)

    state = administration.shown("Status", _state, label=_LABELS)
    host = administration.shown("Host", _host)
    serves = administration.shown("Serves", lambda worker: worker.owner.get_username() if worker.owner else "everybody")
    shown_labels = administration.shown("Labels", lambda worker: ", ".join(fleet.labels_of(worker)) or "–")

    @action(description="Labels", url_path="labels", permissions=["operate"])  # type: ignore[untyped-decorator]
    def label_one(self, request: HttpRequest, object_id: str) -> HttpResponse:  # noqa: ARG002  # the admin's
        return HttpResponseRedirect(f"{reverse('jobs:worker', args=[object_id])}#labels-title")

    its_jobs = administration.shown("Jobs", _its_jobs)
    live_state = common.live("Status", "worker", lambda worker: {"worker_id": worker.pk})

    @admin.action(description="Drain", permissions=["operate"])
    def drain_selected(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        self._set_drained(request, queryset, drained=True)

    @admin.action(description="Undrain", permissions=["operate"])
    def undrain_selected(self, request: HttpRequest, queryset: QuerySet[Worker]) -> None:
        self._set_drained(request, queryset, drained=False)

    @action(description="Drain", url_path="drain", permissions=["operate", "drain_one"])  # type: ignore[untyped-decorator]
    def drain_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._drained_one(request, object_id, drained=True)

    @action(description="Undrain", url_path="undrain", permissions=["operate", "undrain_one"])  # type: ignore[untyped-decorator]
    def undrain_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        return self._drained_one(request, object_id, drained=False)

    def has_drain_one_permission(self, request: HttpRequest, object_id: Any = None) -> bool:  # noqa: ARG002
        """Where it would change anything: of one that may claim."""
        return Worker.objects.filter(pk=object_id, drained_at=None, revoked_at=None).exists()

    def has_undrain_one_permission(self, request: HttpRequest, object_id: Any = None) -> bool:  # noqa: ARG002
        """Where it would change anything: of one that is drained."""
        return Worker.objects.filter(pk=object_id, drained_at__isnull=False, revoked_at=None).exists()

    def _drained_one(self, request: HttpRequest, object_id: str, *, drained: bool) -> HttpResponse:
        def do(worker: Worker) -> HttpResponse:
            self._set_drained(request, [worker], drained=drained)
            return self.response_post_save_change(request, worker)  # type: ignore[no-any-return]

        verb, line = ("Drain", _DRAINED) if drained else ("Undrain", _UNDRAINED)
        return self.for_one(request, object_id, f"{verb} this worker?", f"{verb} it", lines=lambda _: [line], do=do)

    def _set_drained(self, request: HttpRequest, workers: Iterable[Worker], *, drained: bool) -> None:
        change = operations.drain if drained else operations.undrain
        changed = [worker.name for worker in workers if change(worker, by=people.person(request))]
        sentence = f"{'Drained' if drained else 'Undrained'}: {', '.join(changed) or 'none'}."
        self.message_user(request, sentence, messages.SUCCESS if changed else messages.INFO)

    @admin.action(description="Revoke", permissions=["operate"])
    def revoke_selected(self, request: HttpRequest, queryset: QuerySet[Worker]) -> HttpResponse | None:
        names = [worker.name for worker in queryset]
        texts = {"title": "Revoke these keys?", "button": "Revoke them"}
        if question := administration.carry_out(self, request, lines=names, **texts):
            return question
        for worker in queryset:
            operations.revoke(worker, by=people.person(request))
        self.message_user(request, f"Revoked: {', '.join(names)}.", messages.SUCCESS)
        return None

    @action(description="New key", url_path="rotate", permissions=["operate"])  # type: ignore[untyped-decorator]
    def rotate_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def lines(worker: Worker) -> list[str]:
            return [f"Requests with the old key of {worker} are refused at once."]

        def do(worker: Worker) -> HttpResponse:
            key = operations.rotate_key(worker, by=people.person(request))
            return common.key_page(self, request, worker=worker, key=key)

        return self.for_one(request, object_id, "Create a new key?", "Create a new key", lines=lines, do=do)

    @action(description="Revoke", url_path="revoke", permissions=["operate"])  # type: ignore[untyped-decorator]
    def revoke_one(self, request: HttpRequest, object_id: str) -> HttpResponse:
        def lines(worker: Worker) -> list[str]:
            return [f"{worker} is refused at once; its job is lost when the lease ends."]

        def do(worker: Worker) -> HttpResponse:
            operations.revoke(worker, by=people.person(request))
            self.message_user(request, f"Revoked: {worker}.", messages.SUCCESS)
            return self.response_post_save_change(request, worker)  # type: ignore[no-any-return]

        return self.for_one(request, object_id, "Revoke this key?", "Revoke it", lines=lines, do=do)
