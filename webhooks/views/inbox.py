"""The inbox: what came, one delivery, its body, and a replay of it; and the feed of what happened by it."""

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Final

from django import forms
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import NoReverseMatch, reverse

from core import audit, people
from core.pages import FORM, POST, Answer, acting, for_holders
from core.refusal import existing
from core.values import moment, row_id
from scheduling import operations as scheduling
from scheduling.operations import CancelVerdict
from webhooks import live_queries, operations
from webhooks.domain import bodies
from webhooks.domain.deliveries import Source, StartOutcome, Status
from webhooks.handlers import registry
from webhooks.models import Delivery, JobStart
from webhooks.operations import activity as feed
from webhooks.queries import pages

_ANY: Final = [("", "Any")]
_SOURCES: Final = [*_ANY, *((source.value, source.label) for source in Source)]
viewers = partial(for_holders, live_queries.VIEW)
operators = partial(for_holders, operations.OPERATE)


class Moment(forms.CharField):
    """A moment as `<input type="datetime-local">` says it, in UTC; kept as text."""

    widget = forms.DateTimeInput(attrs={"type": "datetime-local"})

    def clean(self, value: Any) -> str:
        text: str = super().clean(value)
        if text and moment(text) is None:
            raise forms.ValidationError("Enter a date and a time, like 2026-09-30T14:05.")
        return text


def _search(placeholder: str) -> forms.CharField:
    widget = forms.TextInput(attrs={"type": "search", "placeholder": placeholder})
    return forms.CharField(required=False, max_length=200, label="Text", widget=widget)


class Form(forms.Form):
    """A form whose fields have ids of its own on the page."""

    ids: ClassVar[str]

    def __init__(self, data: Mapping[str, Any] | None = None, **options: Any) -> None:
        super().__init__(data, auto_id=f"{self.ids}-%s", **options)

    def shown(self) -> dict[str, str]:
        self.is_valid()
        return {name: value for name in self.fields if (value := self.cleaned_data.get(name))}


class FilterForm(Form):
    ids = "filter"
    text = _search("words, an id, a type")
    source = forms.ChoiceField(required=False, choices=_SOURCES)
    _statuses = [(status.value, status.value) for status in Status]
    status = forms.ChoiceField(
        required=False, choices=[*_ANY, (live_queries.TROUBLE, "failed, dead or rejected"), *_statuses]
    )
    event = forms.CharField(
        required=False, max_length=255, label="Type",
        widget=forms.TextInput(attrs={"list": "known-types", "autocomplete": "off"}),
    )  # fmt: skip
    sandbox = forms.CharField(required=False, max_length=100)
    since = Moment(required=False, label="From (UTC)", max_length=40)
    until = Moment(required=False, label="Until (UTC)", max_length=40)
    before = forms.IntegerField(required=False, min_value=1, max_value=2**63 - 1, widget=forms.HiddenInput)
    further = ("event", "sandbox", "since", "until")

    def shown(self) -> dict[str, str]:
        return {name: value for name, value in super().shown().items() if name != "before"}

    def page(self) -> int:
        """The id before which the page begins; 0 for the newest."""
        self.is_valid()
        return self.cleaned_data.get("before") or 0

    def is_further(self) -> bool:
        """Whether a filter is set, or wrong, that stands folded away."""
        return any(self.data.get(name) for name in self.further)


class ActivityForm(Form):
    ids = "filter"
    text = _search("in actors, actions, objects")
    source = forms.ChoiceField(required=False, choices=_SOURCES)
    kind = forms.SlugField(required=False, max_length=40, widget=forms.HiddenInput)
    resource = forms.CharField(required=False, max_length=255, widget=forms.HiddenInput)
    before = forms.CharField(required=False, max_length=100, widget=forms.HiddenInput)


def known_types(source: str = "") -> list[str]:
    named = {event_type for at, event_type in registry.everything() if source in ("", at)}
    return sorted(name for name in named if not name.endswith(".*"))


def _with_jobs(request: HttpRequest) -> bool:
    return request.POST.get("with_jobs") == "yes"


@viewers()
def inbox(request: HttpRequest) -> HttpResponse:
    form = FilterForm(request.GET)
    context = {
        "form": form,
        "shown": form.shown(),
        "before": form.page(),
        "types": known_types(form.shown().get("source", "")),
    }
    return render(request, "webhooks/inbox.html", context, status=200 if form.is_valid() else 422)


@viewers()
def delivery(request: HttpRequest, delivery_id: int) -> HttpResponse:
    row = _delivery_or_404(delivery_id)
    start = pages.body_start(delivery_id, most=bodies.PARSED_BYTES)
    content_type = str(row.headers.get("content-type", ""))
    context = {
        "delivery": row,
        "body": bodies.show(start, size=row.body_bytes, content_type=content_type),
        "source": Source(row.source),
        "functions": pages.runs_of(row),
    }
    return render(request, "webhooks/delivery.html", context)


@viewers()
def body(request: HttpRequest, delivery_id: int) -> HttpResponse:  # noqa: ARG001 (every view gets it)
    """The bytes as they came, to save. Whatever they are, no browser shows them as a page of ours."""
    row = _delivery_or_404(delivery_id)
    whole = pages.body_start(delivery_id, most=row.body_bytes)
    name = f'attachment; filename="delivery-{delivery_id}.bin"'
    headers = {"Content-Disposition": name, "Content-Security-Policy": "sandbox; default-src 'none'"}
    return HttpResponse(whole, content_type="application/octet-stream", headers=headers)


@acting("webhooks:delivery", operators(POST))
def replay(request: HttpRequest, delivery_id: int) -> str:
    operations.replay(delivery_id, with_jobs=_with_jobs(request), by=people.person(request))
    return "It is being processed again; its earlier attempts are kept."


@acting("webhooks:delivery", operators(POST))
def start_again(request: HttpRequest, delivery_id: int) -> Answer:
    start = get_object_or_404(JobStart, delivery_id=delivery_id, pk=row_id(request.POST.get("start", "")) or 0)
    row = operations.start_again(start.pk, by=people.person(request))
    if row.outcome == StartOutcome.STARTED:
        return f"Job #{row.job_id} was started."
    if row.outcome == StartOutcome.SENT:
        return f"The signal {row.kind} was sent."
    return messages.WARNING, row.error or f"Job #{row.job_id} has the same unique key and has not ended."


def _delivery_or_404(delivery_id: int) -> Delivery:
    return existing(pages.delivery(delivery_id), Http404("There is no such delivery."))


@viewers()
def activity(request: HttpRequest) -> HttpResponse:
    form = ActivityForm(request.GET)
    shown = form.shown()
    if "before" in shown:
        # 404 for a page that there is not: the live query would show nothing.
        feed.feed(limit=1, before=shown["before"])
    resource = next(iter(pages.named(shown.get("kind", ""), [shown.get("resource", "")])), None)
    context = {
        "form": form,
        "shown": shown,
        "resource": resource,
        "admin_url": _admin_url(people.person(request), resource) if resource else "",
    }
    return render(request, "webhooks/activity.html", context, status=200 if form.is_valid() else 422)


def _admin_url(user: User, resource: Mapping[str, Any]) -> str:
    """Its row in the administration, for whoever may look there."""
    if not (user.is_staff and user.has_perm(f"webhooks.view_{resource['kind']}")):
        return ""
    try:
        return reverse(f"admin:webhooks_{resource['kind']}_change", args=[resource["pk"]])
    except NoReverseMatch:
        return ""


REPLAYS: Final = 20  # on a page


@viewers()
def replays(request: HttpRequest) -> HttpResponse:
    return render(request, "webhooks/replays.html", {"replays": pages.Replay.latest(limit=REPLAYS)})


@operators(FORM)
def ask_replay(request: HttpRequest) -> HttpResponse:
    """How many the filter of the address fits, and a button that begins; its answer leads to the progress."""
    form = FilterForm(request.POST if request.method == "POST" else request.GET)
    shown = form.shown()
    if not form.is_valid():
        return render(request, "webhooks/replay_ask.html", {"form": form, "shown": shown}, status=422)
    wanted = live_queries.wanted(**shown)
    if request.method == "POST":
        begun = operations.replay_matching(wanted, with_jobs=_with_jobs(request), by=people.person(request))
        if begun is not None:
            return redirect("webhooks:replay", begun.first)
        messages.warning(request, "No delivery matches any more: none was replayed.")
        return redirect("webhooks:inbox")
    context = {"form": form, "shown": shown, "matched": operations.count_matching(wanted)}
    return render(request, "webhooks/replay_ask.html", {**context, "sentence": wanted.sentence()})


@viewers()
def show_replay(request: HttpRequest, first: int) -> HttpResponse:
    context = {"replay": _replay_or_404(first), "may_act": request.user.has_perm(operations.OPERATE)}
    return render(request, "webhooks/replay.html", context)


@acting("webhooks:replay", operators(POST))
def stop_replay(request: HttpRequest, first: int) -> Answer:
    row = _replay_or_404(first)
    verdict = None if row.is_over else scheduling.cancel(row.last).verdict
    if verdict is None or verdict is CancelVerdict.TOO_LATE:
        return messages.WARNING, "Too late: a batch of it is being processed, or it has ended. Try again."
    if (last := pages.delivery(row.until)) is not None:
        message = f"Stopped the bulk replay after {row.handled:,} of {row.matched:,}"
        audit.record(people.person(request), last, message)
    return "Stopped: no further batch is begun."


def _replay_or_404(first: int) -> pages.Replay:
    return existing(pages.Replay.find(first), Http404("There is no such replay."))
