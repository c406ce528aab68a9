"""The form by which people send the signal that a job waits for."""

import json
import uuid
from collections.abc import Mapping
from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from core import people
from jobs import operations
from jobs.domain import waits
from jobs.models import Suspension
from jobs.queries import waits as queries
from jobs.views import access

_FIELDS: Final[Mapping[str, type[forms.Field]]] = {
    "string": forms.CharField, "number": forms.FloatField, "integer": forms.IntegerField,
    "boolean": forms.BooleanField,
}  # fmt: skip


class SignalForm(forms.Form):
    """The fields that the job's schema names, or one for any JSON. Sent twice (`key`), it is one signal."""

    key = forms.CharField(widget=forms.HiddenInput, max_length=waits.LONGEST_ID)

    def __init__(self, wait: Suspension, data: Any = None) -> None:
        super().__init__(data, initial={"key": uuid.uuid4().hex}, prefix="signal")
        self.name = wait.signal
        self._named = waits.fields(json.loads(wait.schema or "null"))
        for field in self._named:
            common: dict[str, Any] = {"label": field.label, "help_text": "", "required": field.is_required}
            if field.choices:
                options = [(str(place), str(choice)) for place, choice in enumerate(field.choices)]
                none = [] if field.is_required else [("", "")]
                self.fields[field.name] = forms.ChoiceField(choices=none + options, **common)
            else:
                self.fields[field.name] = _FIELDS[field.type](**common | _must_not_be_ticked(field.type))
        if not self._named:
            text = forms.Textarea({"rows": 3})
            self.fields["json"] = forms.JSONField(label="Data, as JSON", required=False, widget=text)

    @property
    def value(self) -> Any:
        """What is sent."""
        values = self.cleaned_data
        if not self._named:
            return values["json"]
        filled = {field: values[field.name] for field in self._named if values[field.name] not in (None, "")}
        return {field.name: field.choices[int(one)] if field.choices else one for field, one in filled.items()}


def _must_not_be_ticked(kind: str) -> dict[str, Any]:
    return {"required": False} if kind == "boolean" else {}


def form_of(job_id: int) -> SignalForm | None:
    """The form of the signal that this job waits for; None: it waits for none."""
    wait = queries.waiting(job_id)
    return None if wait is None else SignalForm(wait)


@access.button
def send(request: HttpRequest, job_id: int) -> HttpResponse:
    """Send it, and say what is wrong with it at the job's page."""
    url = reverse("jobs:job", args=[job_id])
    access.visible(request, job_id)
    wait = queries.waiting(job_id)
    if wait is None:
        return access.respond(request, "The job waits for no signal any more.", level=messages.WARNING, url=url)
    form = SignalForm(wait, request.POST)
    if not form.is_valid():
        wrong = "; ".join(f"{name}: {errors[0]}" for name, errors in form.errors.items())
        return access.respond(request, wrong, level=messages.ERROR, url=url)

    def do() -> str:
        operations.signal(job_id, form.name, form.value, by=people.person(request), key=form.cleaned_data["key"])
        return f"The signal {form.name} was sent."

    return access.done(request, url, do)
