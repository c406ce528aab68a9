from typing import Any, Final

from django import forms

from outbox.domain.addresses import LONGEST_URL
from outbox.domain.endpoints import LEAST_PER_MINUTE, Wanted
from outbox.domain.events import OF_PEOPLE, PATTERNS, TEST, TYPES
from outbox.domain.filters import Filter
from outbox.errors import OutboxError
from outbox.models import Endpoint

_FIELDS: Final = ("name", "url", "events", "kinds", "with_result", "per_minute")
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
            return Wanted(**{name: self.cleaned_data[name] for name in _FIELDS})
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


def initial(endpoint: Endpoint) -> dict[str, Any]:
    return {name: getattr(endpoint, name) for name in _FIELDS} | {"kinds": ", ".join(endpoint.kinds)}


def _label(pattern: str) -> str:
    sentence = _FAMILIES.get(pattern) or TYPES[pattern]
    return f"{pattern}: {sentence[0].lower()}{sentence[1:].rstrip('.')}"
