"""The inbox: deliveries with their attempts, what was refused, and the secrets, of which no page shows any; rules that
people keep, what they would make of a delivery, and the jobs that deliveries started."""

import json
from dataclasses import replace
from functools import partial
from typing import Any, Final

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from unfold.admin import ModelAdmin
from unfold.decorators import action

from core import administration, people
from core.json_fields import StrictJSON
from core.values import row_id
from live import html
from webhooks import live_queries, operations
from webhooks.domain import rules
from webhooks.domain.deliveries import Source, StartOutcome, Status
from webhooks.errors import BadRule, NotFound
from webhooks.models import Delivery, JobStart, Refusal, Rule, SandboxToken, Secret
from webhooks.queries import pages, results

_PROPOSED: Final = 20
_EXCERPT: Final = 60  # characters of a reason that fit into a phone's list

FILTERS: Final = [
    administration.among("source", Source),
    administration.among("status", Status, led=set(Status) - {Status.PROCESSED}),  # most were: they have no index
    administration.recent("event_type"),
    administration.by_day("received_at", leads=True),
]


def _badge(row: Delivery) -> SafeString:
    arguments, known = {"delivery_id": row.pk}, {"delivery": row}
    return html.wrapper_of_context("delivery-badge", arguments, context=known, audience=live_queries.OPERATOR)


def _replay(request: HttpRequest, row: Delivery, *, with_jobs: bool = False) -> str:
    operations.replay(row.pk, with_jobs=with_jobs, by=people.person(request))
    return "processed again"


_replay_with_jobs = partial(_replay, with_jobs=True)


@admin.register(Delivery)
class DeliveryAdmin(administration.OnSite, administration.Operated, administration.BoundedList):
    """What came, as it came. What it leads to changes by replaying it."""

    page = "webhooks:delivery"
    operate = operations.OPERATE

    list_display = ["id", "source", "event_type", "state", "attempts", "duplicates", "excerpt", "received_at"]
    list_display_links = ["id", "event_type"]
    list_filter = FILTERS
    search_fields = ["delivery_id"]
    search_help_text = "Words of the body, a delivery id, a type, or a number of the inbox"
    actions = ["replay_selected", "replay_selected_with_jobs"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Delivery]:
        """Without bodies, which may be of 25 MB."""
        return super().get_queryset(request).defer("body", "search")  # type: ignore[no-any-return]

    def finds_exactly(self, term: str) -> bool:
        """A number is an id; a word may be in any number of bodies."""
        return row_id(term) is not None

    def search(self, rows: QuerySet[Delivery], term: str) -> QuerySet[Delivery]:
        return pages.with_words(rows, term, or_pk=row_id(term))

    state = administration.shown("Status", _badge)
    excerpt = administration.shown("Note", lambda row: Truncator(row.note or "").chars(80))
    replay_selected = administration.on_each("Replay {}", _replay)
    replay_selected_with_jobs = administration.on_each("Replay {} and start their jobs again", _replay_with_jobs)


@admin.register(Refusal)
class RefusalAdmin(administration.BoundedList):
    """Counts of what was refused. Of the requests themselves nothing is kept."""

    list_display = ["hour", "source", "reason", "count", "last_at", "last_address"]
    list_filter = ["source", administration.recent("reason"), administration.by_day("hour")]


def _retire(request: HttpRequest, row: Secret) -> str:
    operations.retire(row.pk, by=people.person(request))
    return "retired"


@admin.register(Secret)
class SecretAdmin(administration.Operated, administration.ReadOnly):
    """Which secrets there are. What they are is shown once, on the page where they are added."""

    operate = operations.OPERATE

    list_display = ["fingerprint", "source", "name", "state", "created_at", "retired_at", "last_used_at"]
    list_filter = ["source", ("retired_at", admin.EmptyFieldListFilter)]
    exclude = ["sealed"]
    actions = ["retire_selected"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Secret]:
        rows: QuerySet[Secret] = super().get_queryset(request)
        return rows.defer("sealed")

    # Whether it opens anything, or will not once its time comes.
    state = administration.shown(
        "Status", lambda secret: "retired" if secret.retired_at else "active",
        label={"retired": "danger", "active": "success"},
    )  # fmt: skip

    def view_on_site(self, obj: Secret) -> str:
        return reverse("webhooks:source", args=[obj.source])

    retire_selected = administration.on_each(
        "Retire {} at once", _retire, line=lambda row: f"{row.get_source_display()} {row.fingerprint} {row.name}"
    )


@admin.register(SandboxToken)
class SandboxTokenAdmin(administration.ReadOnly):
    """Which tokens there are. Their hashes are of no use to anybody."""

    list_display = ["sandbox", "created_at", "expires_at", "revoked_at", "last_used_at"]
    list_filter = [("revoked_at", admin.EmptyFieldListFilter)]
    search_fields = ["sandbox"]
    exclude = ["token_hash"]


class RuleForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's own class takes no parameter
    class Meta:
        model = Rule
        fields = (
            "name", "is_enabled", "source", "event", "filter", "kind", "flow_template", "signal", "signal_key",
            "payload", "queue", "priority", "unique_key", "on_conflict", "debounce", "tags", "owner",
        )  # fmt: skip
        field_classes = {"filter": StrictJSON, "payload": StrictJSON, "debounce": StrictJSON}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in self.Meta.field_classes:
            if name in self.fields:  # who may only look has none
                self.fields[name].widget.attrs |= {"style": "font-family: monospace", "spellcheck": "false"}
                self.fields[name].widget.attrs["rows"] = 2 if name == "debounce" else 8

    def clean_filter(self) -> Any:
        value = self.cleaned_data["filter"]
        return {} if value is None else value

    def _post_clean(self) -> None:
        """What is to be said of the whole, once every field is good by itself: Django looks at those here."""
        super()._post_clean()  # type: ignore[misc]  # the stubs leave Django's hook out
        if self.errors:
            return
        try:
            operations.check_rule(replace(results.as_rule(self.instance), pk=self.instance.pk or 0))
        except BadRule as refusal:
            field = refusal.field if refusal.field in self.fields else None
            self.add_error(field, f"{refusal.reason[:1].upper()}{refusal.reason[1:]}.")


@admin.register(Rule)
class RuleAdmin(ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    """Which deliveries start which jobs. Rules that an app declares in its code are not here."""

    form = RuleForm
    list_display = ["name", "is_enabled", "source", "event", "kind", "owner"]
    list_filter = ["source", "is_enabled"]
    list_select_related = ["owner"]
    search_fields = ["name", "event", "kind"]
    autocomplete_fields = ["owner"]
    fieldsets = [
        (None, {"fields": [("name", "is_enabled")]}),
        ("Which deliveries", {"fields": [("source", "event"), "filter"]}),
        (
            "Which job, flow or signal",
            {"fields": [("kind", "flow_template"), ("signal", "signal_key"), "payload", "owner"]},
        ),
        ("Of a job", {"fields": [("queue", "priority"), "unique_key", "tags"]}),
        ("While another job has the unique key", {"fields": ["on_conflict", "debounce"]}),
    ]
    actions_detail = ["try_it"]

    def has_try_permission(self, request: HttpRequest, object_id: Any = None) -> bool:  # noqa: ARG002
        return self.has_view_permission(request) and live_queries.may_view(request.user)

    @action(description="Try it", url_path="try", permissions=["try"])  # type: ignore[untyped-decorator]
    def try_it(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """What it would make of a stored delivery: the newest that has its event, or the one that is asked for."""
        rule = self.get_object(request, object_id)
        if rule is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[no-any-return]
        newest = Delivery.objects.defer("body", "search", "headers").filter(source=rule.source).order_by("-pk")
        proposed = list(newest[:_PROPOSED])
        matching = [row for row in proposed if rules.means(rule.event, row.event_type)] or proposed
        requested = request.GET.get("delivery", str(matching[0].pk) if matching else "")
        context = {
            **self.admin_site.each_context(request),
            "title": f"Try {rule}",
            "opts": self.opts,
            "rule": rule,
            "requested": requested,
            "proposed": proposed,
            **_trial(rule, requested),
        }
        return TemplateResponse(request, "admin/webhooks/try.html", context)


def _reason(start: JobStart) -> str:
    if start.outcome == StartOutcome.SKIPPED:
        return "a job with the same unique key had not ended, or a later delivery had started it"
    return start.error or "–"


def _start_again(request: HttpRequest, row: JobStart) -> str:
    start = operations.start_again(row.pk, by=people.person(request))
    return start.error or start.outcome


@admin.register(JobStart)
class JobStartAdmin(administration.Operated, administration.BoundedList):
    operate = operations.OPERATE
    list_display = ["id", "shown_outcome", "rule_name", "kind", "delivery_link", "round", "job_link", "excerpt", "at"]
    list_filter = [
        administration.among("outcome", StartOutcome, led={StartOutcome.FAILED}),
        administration.recent("rule_name"),
    ]
    fields = ["shown_outcome", "rule_name", "kind", "delivery_link", "round", "job_link", "reason", "at"]
    actions = ["start_selected"]

    # The job that was started, or that has the same unique key.
    job_link = administration.shown(
        "Job", lambda start: administration.link("jobs_job", start.job_id, f"#{start.job_id}")
    )
    shown_outcome = administration.shown(
        "Outcome",
        lambda start: start.outcome,
        label={"started": "success", "sent": "success", "skipped": "info", "failed": "danger"},
    )
    excerpt = administration.shown("Reason", lambda start: Truncator(_reason(start)).chars(_EXCERPT))
    reason = administration.shown("Reason", _reason)
    delivery_link = administration.shown(
        "Delivery", lambda start: administration.link("webhooks_delivery", start.delivery_id)
    )

    start_selected = administration.on_each("Start the job of {} again", _start_again, by="outcome")


def _trial(rule: Rule, requested: str) -> dict[str, Any]:
    if not requested:
        return {"error": f"Nothing has come from {rule.get_source_display()} yet."}
    try:
        trial = operations.try_rule(rule.pk, delivery=row_id(requested) or 0)
    except NotFound as refusal:
        return {"error": refusal.message}
    if trial.mismatch or trial.error:
        return {"mismatch": trial.mismatch, "error": trial.error}
    return {"payload": json.dumps(trial.payload, ensure_ascii=False, indent=2), "signal_key": trial.signal_key}
