import json
from typing import Any, Final
from zoneinfo import available_timezones

from django import forms
from django.urls import reverse

from core.refusal import Refusal
from scheduling import operations, registry
from scheduling.domain import schedules
from scheduling.domain.schedules import Calendar, Missed, Overlap, Policy
from scheduling.errors import BadSchedule
from scheduling.models import Cron

_PREVIEW: Final = {
    "hx-trigger": "load, input changed delay:300ms, change from:#id_zone", "hx-include": "#id_zone",
    "hx-target": "#firings", "hx-sync": "this:replace",
}  # fmt: skip
FIELDS: Final = ("name", "function", "arguments_text", "timing", "zone", "missed", "at_most", "overlap")


class CronForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's own class takes no parameter
    """When it fires, what it calls, and what becomes of firings that were missed or overlap."""

    function = forms.ChoiceField(
        help_text="What the farm offers (its arguments: kind and payload), and the functions of added apps."
    )
    arguments_text = forms.CharField(
        label="Arguments", widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false"}), initial="{}",
        help_text='A JSON object, such as {"kind": "image", "payload": {"prompt": "a lighthouse"}}.',
    )  # fmt: skip
    timing = forms.CharField(
        label="Schedule", max_length=150,
        help_text='Five fields: minute, hour, day, month, weekday ("0 6 * * 1-5"); or "every 30 s", "every 5 min".'
        '<div id="firings" class="cron-preview" role="status"></div>',
    )  # fmt: skip
    zone = forms.ChoiceField(
        label="Time zone", initial="UTC", choices=lambda: [(name, name) for name in sorted(available_timezones())]
    )

    field_order = FIELDS  # what it does, when, and then the rest, which has the defaults of `declare`
    preview = "scheduling:cron_preview"  # the next firings of the schedule that is being typed

    class Meta:
        """What is the row's own; the rest is made of the fields above."""

        model = Cron
        fields = ("name", "missed", "at_most", "overlap")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "function" in self.fields:
            choices = [(each.name, f"{each.summary} ({each.name})") for each in registry.for_people()]
            self.fields["function"].choices = choices  # type: ignore[attr-defined]  # a ChoiceField
        if "timing" in self.fields:
            self.fields["timing"].widget.attrs |= _PREVIEW | {"hx-get": reverse(self.preview)}
        self.initial.setdefault("missed", Missed.ONCE)
        self.initial.setdefault("overlap", Overlap.SKIP)
        if self.instance.pk:
            self._begin_with(self.instance)

    def _begin_with(self, cron: Cron) -> None:
        self.initial["arguments_text"] = json.dumps(cron.args, indent=2, ensure_ascii=False)
        try:
            schedule = schedules.parse(cron.schedule)
        except BadSchedule:  # a row that was edited by hand: whoever looks at it may mend it
            self.initial["timing"] = cron.schedule
            return
        self.initial["timing"] = schedule.typed()
        self.initial["zone"] = schedule.tz if isinstance(schedule, Calendar) else "UTC"

    def clean_arguments_text(self) -> dict[str, Any]:
        try:
            value = json.loads(self.cleaned_data["arguments_text"])
        except (ValueError, RecursionError) as error:
            raise forms.ValidationError(f"This is not JSON: {error}") from None
        if not isinstance(value, dict):
            raise forms.ValidationError("A JSON object: {...}.")
        return value

    def _post_clean(self) -> None:
        """What its rules say of the whole, once every field is good by itself: Django looks at those here."""
        super()._post_clean()  # type: ignore[misc]  # the stubs leave Django's hook out
        if self.errors:
            return
        try:
            self.plan = self._plan()
        except BadSchedule as refusal:
            self.add_error("timing", refusal.message)
        except Refusal as refusal:
            self.add_error("arguments_text", refusal.message)

    def _plan(self) -> dict[str, Any]:
        values = self.cleaned_data
        registry.check_for_people(values.get("function", self.instance.function), values["arguments_text"])
        return {
            "schedule": schedules.typed(values["timing"], tz=values["zone"]),
            "args": values["arguments_text"],
            "policy": Policy(missed=values["missed"], at_most=values["at_most"], overlap=values["overlap"]),
        }

    def clean_name(self) -> str:
        try:
            return operations.checked_name(self.cleaned_data["name"])
        except BadSchedule as refusal:
            raise forms.ValidationError(refusal.message) from None
