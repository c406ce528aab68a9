"""Pages of the outbox: endpoints, messages, and what people fill in."""

import json
from collections.abc import Callable
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_variables

from accounts.http import members_only
from core import pages, people
from core.values import row_id
from outbox import live_queries, operations, queries
from outbox.domain.addresses import LONGEST_URL
from outbox.domain.messages import FIELDS, LEAST_PER_MINUTE, OF_PEOPLE, PATTERNS, TEST, TYPES, Filter, Status, Wanted
from outbox.errors import OutboxError
from outbox.models import Endpoint
from ratelimits.errors import RateLimited

_FAMILIES: Final = {"*": "all events"} | {
    f"{family}.*": f"all of {several}"
    for family, several in (
        ("job", "jobs"), ("queue", "queues"), ("owner", "people whose jobs are paused"), ("cron", "crons"),
        ("delivery", "webhooks that came in"),
        ("alert", "alerts"), ("audit", "the audit log, which “all events” leaves out"),
        ("batch", "batches of OpenAI's API"),
    )
}  # fmt: skip


class EndpointForm(forms.Form):
    name = forms.CharField(max_length=100, help_text="For you: who takes the events.")
    url = forms.CharField(
        label="URL", max_length=LONGEST_URL, widget=forms.URLInput(attrs={"placeholder": "https://"}),
        help_text="Events are posted there; private networks are refused. Or signal:NAME?key={{data.unique_key}}: sent "
        "to the jobs that wait for that signal by that key.",
    )  # fmt: skip
    events = forms.MultipleChoiceField(choices=(), widget=forms.CheckboxSelectMultiple)
    kinds = forms.CharField(
        required=False, label="Kinds", help_text="Only of jobs of these kinds, with commas between; empty: of all."
    )
    with_result = forms.BooleanField(required=False, label="Send a job's result along, to whoever is at this URL")
    per_minute = forms.FloatField(
        required=False, min_value=LEAST_PER_MINUTE, max_value=1e9, label="Messages a minute, at most"
    )
    for_farm = forms.BooleanField(required=False, label="For events of the whole farm")

    def __init__(self, *args: Any, is_operator: bool, is_new: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        patterns = [one for one in PATTERNS if one != TEST] if is_operator else OF_PEOPLE
        self.fields["events"].choices = [(one, _label(one)) for one in patterns]  # type: ignore[attr-defined]
        if not (is_operator and is_new):
            del self.fields["for_farm"]

    def clean_kinds(self) -> list[str]:
        return [name for name in self.cleaned_data["kinds"].replace(",", " ").split() if name]

    def wanted(self) -> Wanted | None:
        if not self.is_valid():
            return None
        try:
            return Wanted(**{name: self.cleaned_data[name] for name in FIELDS})
        except OutboxError as refusal:
            self.refuse(refusal)
            return None

    def refuse(self, refusal: OutboxError) -> None:
        field = "url" if refusal.code == "bad_url" else refusal.numbers.get("field")
        self.add_error(field if field in self.fields else None, refusal.message)


class FilterForm(forms.Form):
    """Which messages of an endpoint are listed, or replayed. What makes no sense does not narrow."""

    status = forms.CharField(required=False, widget=forms.HiddenInput)
    event_type = forms.ChoiceField(
        label="Type", required=False, choices=[("", "All types"), *((one, one) for one in TYPES)]
    )
    subject = forms.CharField(
        label="About", required=False, max_length=200, widget=forms.TextInput(attrs={"placeholder": "job/7"})
    )

    def filter(self, endpoint_id: int) -> Filter:
        return Filter.read(endpoint=endpoint_id, **{name: self.data.get(name, "") for name in self.fields})


def _label(pattern: str) -> str:
    sentence = _FAMILIES.get(pattern) or TYPES[pattern]
    return f"{pattern}: {sentence[0].lower()}{sentence[1:].rstrip('.')}"


_ACTIONS: Final[dict[str, tuple[Callable[..., Any], str]]] = {
    "pause": (operations.pause, "It is paused. What happens meanwhile is kept for it."),
    "resume": (operations.resume, "It is active. What was kept for it is being sent."),
    "disable": (operations.disable, "It is disabled. Nothing is kept for it any more."),
    "test": (operations.send_test, "A test event is on its way."),
}


@pages.guarded(members_only)
def endpoints(request: HttpRequest) -> HttpResponse:
    person = people.person(request)
    whose = live_queries.EVERYBODY if operations.sees_all(person) else person.pk
    return render(request, "outbox/endpoints.html", {"whose": whose})


@pages.guarded(members_only, pages.FORM)
@sensitive_variables("secret")
def new(request: HttpRequest) -> HttpResponse:
    """A form for an endpoint; the answer to a good one shows its secret, this once."""
    person = people.person(request)
    data = request.POST if request.method == "POST" else None
    form = EndpointForm(data, is_operator=operations.is_operator(person), is_new=True, initial={"events": ["job.*"]})
    if (wanted := form.wanted() if form.is_bound else None) is not None:
        try:
            row, secret = operations.create(wanted, by=person, for_farm=form.cleaned_data.get("for_farm", False))
        except OutboxError as refusal:
            form.refuse(refusal)
        else:
            return _secret(request, row, secret)
    return render(request, "outbox/form.html", {"form": form}, status=422 if form.is_bound else 200)


@pages.guarded(members_only, pages.FORM)
def edit(request: HttpRequest, endpoint_id: int) -> HttpResponse:
    person = people.person(request)
    row = operations.operable(endpoint_id, by=person)
    data = request.POST if request.method == "POST" else None
    initial = {name: getattr(row, name) for name in FIELDS} | {"kinds": ", ".join(row.kinds)}
    form = EndpointForm(data, is_operator=row.owner_id is None, is_new=False, initial=initial)
    if (wanted := form.wanted() if form.is_bound else None) is not None:
        try:
            operations.change(endpoint_id, wanted, by=person)
        except OutboxError as refusal:
            form.refuse(refusal)
        else:
            messages.success(request, "Changed.")
            return redirect("outbox:endpoint", endpoint_id)
    return render(request, "outbox/form.html", {"form": form, "endpoint": row}, status=422 if form.is_bound else 200)


@pages.guarded(members_only)
def endpoint(request: HttpRequest, endpoint_id: int) -> HttpResponse:
    row = operations.find(endpoint_id, by=people.person(request))
    form = FilterForm(request.GET)
    context = {
        "endpoint": row,
        "form": form,
        "filters": live_queries.in_address(form.filter(endpoint_id)),
        "statuses": list(Status),
        "before": row_id(request.GET.get("before", "")) or 0,
        "may_act": operations.may_operate(people.person(request), row),
    }
    return render(request, "outbox/endpoint.html", context)


_button = pages.guarded(members_only, pages.POST)


@_button
@sensitive_variables("secret")
def rotate(request: HttpRequest, endpoint_id: int) -> HttpResponse:
    person = people.person(request)
    secret = operations.rotate(endpoint_id, by=person)
    return _secret(request, operations.operable(endpoint_id, by=person), secret)


@_button
def delete(request: HttpRequest, endpoint_id: int) -> HttpResponse:
    operations.delete(endpoint_id, by=people.person(request))
    messages.success(request, "The endpoint and its messages are deleted.")
    return redirect("outbox:endpoints")


@pages.acting("outbox:endpoint", _button)
def act(request: HttpRequest, endpoint_id: int, action: str) -> pages.Answer:
    if action not in _ACTIONS:
        raise Http404("There is nothing at this address.")
    do, done = _ACTIONS[action]
    is_nothing = do(endpoint_id, by=people.person(request)) == 0
    return (messages.WARNING, "Nothing was sent: it is disabled.") if is_nothing else done


@pages.guarded(members_only)
def message(request: HttpRequest, message_id: int) -> HttpResponse:
    row = operations.find_message(message_id, by=people.person(request))
    body = queries.body_of(row)
    may_act = operations.may_operate(people.person(request), row.endpoint)
    context = {"message": row, "body": body, "value": json.loads(body), "may_act": may_act}
    return render(request, "outbox/message.html", context)


@pages.acting("outbox:message", _button)
def replay(request: HttpRequest, message_id: int) -> str:
    operations.replay(message_id, by=people.person(request))
    return "It is being sent once more, under the same id."


@sensitive_variables("secret")
def _secret(request: HttpRequest, row: Endpoint, secret: str) -> HttpResponse:
    if not row.is_signed:
        messages.success(request, "It is active.")
        return redirect("outbox:endpoint", row.pk)
    return render(request, "outbox/secret.html", {"endpoint": row, "secret": secret})


@pages.guarded(members_only, pages.FORM)
def ask_replay(request: HttpRequest, endpoint_id: int) -> HttpResponse:
    """How many messages the filter of the address matches, and a button that begins; its answer is the progress."""
    person = people.person(request)
    row = operations.operable(endpoint_id, by=person)
    wanted = FilterForm(request.POST if request.method == "POST" else request.GET).filter(endpoint_id)
    if request.method == "POST":
        try:
            begun = operations.replay_matching(wanted, by=person)
        except RateLimited as refusal:
            messages.warning(request, refusal.message)
            return redirect("outbox:endpoint", endpoint_id)
        if begun is not None:
            return redirect("outbox:bulk_replay", begun.first)
        messages.warning(request, "No message matches any more: none was replayed.")
        return redirect("outbox:endpoint", endpoint_id)
    context = {
        "endpoint": row,
        "filters": live_queries.in_address(wanted),
        "matched": operations.count_matching(wanted, by=person),
        "most": operations.MOST_COUNTED,
        "sentence": wanted.sentence(),
    }
    return render(request, "outbox/replay_ask.html", context)


@pages.guarded(members_only)
def bulk_replay(request: HttpRequest, replay_id: int) -> HttpResponse:
    person = people.person(request)
    row = operations.find_replay(replay_id, by=person)
    may_act = row.by == person.pk or operations.is_operator(person)
    return render(request, "outbox/replay.html", {"replay": row, "may_act": may_act})


@pages.acting("outbox:bulk_replay", _button)
def stop_replay(request: HttpRequest, replay_id: int) -> str:
    operations.stop_replay(replay_id, by=people.person(request))
    return "Stopped: no further batch is begun."
