"""The form by which people send the signal that a job waits for: there as long as it waits."""

from collections.abc import Mapping
from typing import Any, Final

from django import forms

from core.json_fields import StrictJSON
from jobs.domain import waits
from jobs.domain.states import Status
from jobs.live_queries.common import MEMBER, part
from jobs.models import Suspension
from jobs.queries import pages, reads
from jobs.queries import waits as queries
from live.registry import Viewer

_FIELDS: Final[Mapping[str, type[forms.Field]]] = {
    "string": forms.CharField, "number": forms.FloatField, "integer": forms.IntegerField,
    "boolean": forms.BooleanField,
}  # fmt: skip


class SignalForm(forms.Form):
    """The fields that the job's schema names, or one for any JSON. What is sent of one wait (`key`) is one signal."""

    key = forms.CharField(widget=forms.HiddenInput, max_length=waits.LONGEST_ID)

    def __init__(self, wait: Suspension, data: Any = None, *, key: str = "") -> None:
        super().__init__(data, initial={"key": key}, prefix="signal")
        self.name = wait.signal
        self._named = waits.fields(waits.parsed(wait.schema))
        for field in self._named:
            common: dict[str, Any] = {"label": field.label, "help_text": "", "required": field.is_required}
            if field.choices:
                options = [(str(place), str(choice)) for place, choice in enumerate(field.choices)]
                none = ("", "Choose one" if field.is_required else "")
                self.fields[field.name] = forms.ChoiceField(choices=[none, *options], **common)
            else:
                self.fields[field.name] = _FIELDS[field.type](**common | _must_not_be_ticked(field.type))
        if not self._named:
            text = forms.Textarea({"rows": 3})
            self.fields["json"] = StrictJSON(label="Data, as JSON", required=False, widget=text)

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


def key_of(fence: int) -> str:
    """What is sent by the form of this wait, whoever sends it and however often."""
    return f"form-{fence}"


@part("job-signal", "job:{job_id}", audiences=(MEMBER,), template="signal", every_s=0.25)
def job_signal(*, job_id: int) -> Mapping[str, Any] | None:
    """The form of the signal that this job waits for; none while it waits for none."""
    row = pages.job(job_id)
    if row is None:
        return None
    wait = queries.waiting(job_id) if row.status == Status.PENDING and row.is_behind else None
    return {"signal": None if wait is None else SignalForm(wait, key=key_of(row.fence))}


@job_signal.may_see
def _(viewer: Viewer, *, job_id: int) -> str | None:
    """Who may operate the job."""
    row = reads.visible_to(viewer.user).filter(pk=job_id).first()
    return MEMBER if row is not None and reads.may_operate(viewer.user, row) else None
