"""Pages of scheduled functions and crons, and the form of a cron."""

import json
import re
from typing import Any, Final
from zoneinfo import available_timezones

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from core import audit, pages, people
from core.refusal import CancelVerdict, Refusal, existing
from postgres import clock
from scheduling import live_queries, operations, registry
from scheduling.domain import schedules
from scheduling.domain.calls import Status
from scheduling.domain.schedules import Calendar, Missed, Overlap, Policy
from scheduling.errors import BadSchedule, NotFound, SchedulingError
from scheduling.models import Cron, ScheduledFunction
from scheduling.queries import pages as queries

_PREVIEW: Final = {
    "hx-trigger": "load, input changed delay:300ms, change from:#id_zone", "hx-include": "#id_zone",
    "hx-target": "#firings", "hx-sync": "this:replace",
}  # fmt: skip
FIELDS: Final = ("name", "function", "arguments_text", "timing", "zone", "missed", "at_most", "overlap")
OPERATE = "scheduling.operate_scheduledfunction"
ADD_CRON, CHANGE_CRON = "scheduling.add_cron", "scheduling.change_cron"
CANCEL_MESSAGES = {
    CancelVerdict.BEFORE_START: "Canceled: it will never run.",
    CancelVerdict.BEFORE_RETRY: "Canceled: an earlier attempt failed, and there will be no further one.",
    CancelVerdict.WHILE_RUNNING: (
        "Canceled while running: it continues, but its outcome and whatever it schedules are ignored."
    ),
}
_ID = "[0-9]{1,18}"  # a bigint holds it


class CronForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's own class takes no parameter
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
        '<div id="firings" role="status"></div>',
    )  # fmt: skip
    zone = forms.ChoiceField(
        label="Time zone", initial="UTC", choices=lambda: [(name, name) for name in sorted(available_timezones())]
    )

    field_order = FIELDS  # what it does, when, and then the rest, which has the defaults of `declare`

    class Meta:
        """What is the row's own; the rest is made of the fields above."""

        model = Cron
        fields = ("name", "missed", "at_most", "overlap")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choices = [(each.name, f"{each.summary} ({each.name})") for each in registry.for_people()]
        self.fields["function"].choices = choices  # type: ignore[attr-defined]  # a ChoiceField
        self.fields["timing"].widget.attrs |= _PREVIEW | {"hx-get": reverse("scheduling:cron_preview")}
        self.initial.setdefault("missed", Missed.ONCE)
        self.initial.setdefault("overlap", Overlap.SKIP)
        if self.instance.pk:  # it keeps its name and its function
            del self.fields["name"], self.fields["function"]
            self._begin_with(self.instance)

    def _begin_with(self, cron: Cron) -> None:
        try:
            self.initial["arguments_text"] = json.dumps(cron.args, indent=2, ensure_ascii=False)
        except ValueError:  # a row that was edited by hand: whoever looks at it may mend it
            self.initial["arguments_text"] = cron.stored_args  # type: ignore[attr-defined]  # of every cron that is read
        try:
            schedule = schedules.parse(cron.schedule)
        except BadSchedule:
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


@pages.for_holders(live_queries.VIEW)
def functions(request: HttpRequest) -> HttpResponse:
    filters = {name: request.GET.get(name, "")[:200].replace("\0", "") for name in ("status", "function", "cron")}
    before = request.GET.get("before", "")
    shown = {**filters, "before": int(before) if re.fullmatch(_ID, before) else 0}
    context = {"shown": shown, "statuses": list(Status), "names": queries.names()}
    return render(request, "scheduling/functions.html", context)


@pages.for_holders(live_queries.VIEW)
def function(request: HttpRequest, function_id: int) -> HttpResponse:
    row = existing(queries.function(function_id), NotFound(resource="scheduled function"))
    return render(request, "scheduling/function.html", {"function": row})


_button = pages.for_holders(OPERATE, pages.POST)


@pages.acting("scheduling:function", _button)
def cancel(request: HttpRequest, function_id: int) -> pages.Answer:
    done = operations.cancel(function_id)
    if done.verdict is CancelVerdict.TOO_LATE:
        how = "it is running and will finish." if done.status is Status.PENDING else f"it has ended as {done.status}."
        return messages.WARNING, f"Too late: {how}"
    audit.record(people.person(request), ScheduledFunction(pk=function_id), f"Canceled ({done.verdict}).")
    return CANCEL_MESSAGES[done.verdict]


@pages.acting("scheduling:function", _button)
def run_again(request: HttpRequest, function_id: int) -> HttpResponse:
    row = operations.run_again(function_id)
    audit.record(people.person(request), row, f"Ran #{function_id} again.")
    messages.success(request, f"Scheduled again as #{row.pk}.")
    return redirect("scheduling:function", row.pk)


@pages.for_holders(live_queries.VIEW)
def crons(request: HttpRequest) -> HttpResponse:
    return render(request, "scheduling/crons.html")


@pages.for_holders(live_queries.VIEW)
def cron(request: HttpRequest, name: str) -> HttpResponse:
    row = existing(queries.cron(name), NotFound(resource="cron"))
    return render(request, "scheduling/cron.html", {"cron": row, "is_editable": operations.is_editable(row)})


@pages.for_holders(ADD_CRON, pages.FORM)
def new_cron(request: HttpRequest) -> HttpResponse:
    """The form of a new cron, which the address may have begun."""
    form = CronForm(request.POST or None, initial=request.GET.dict())
    return _form(request, form, operations.make, "The cron was added.", "Added.")


@pages.for_holders(CHANGE_CRON, pages.FORM)
def edit_cron(request: HttpRequest, name: str) -> HttpResponse:
    row = existing(queries.cron(name), NotFound(resource="cron"))
    if not operations.is_editable(row):
        raise NotFound(resource="cron of yours")
    return _form(request, CronForm(request.POST or None, instance=row), operations.edit, "The cron was changed.")


def _form(request: HttpRequest, form: CronForm, do: Any, sentence: str, line: str = "") -> HttpResponse:
    if form.is_valid():
        name = form.cleaned_data.get("name", form.instance.pk)
        function = {"function": form.cleaned_data["function"]} if "function" in form.fields else {}
        try:
            row = do(name, **function, **form.plan)
        except SchedulingError as refusal:  # somebody was quicker
            form.add_error(None, refusal.message)
        else:
            changed = ", ".join(str(form[field].label) for field in form.changed_data)
            audit.record(people.person(request), row, line or f"Changed {changed or 'nothing'}.")
            messages.success(request, sentence)
            may_look = people.person(request).has_perm(live_queries.VIEW)
            return redirect("scheduling:cron", name) if may_look else redirect(request.path)
    return render(request, "scheduling/cron_form.html", {"form": form}, status=422 if form.is_bound else 200)


@pages.guarded(login_required)
def preview(request: HttpRequest) -> HttpResponse:
    """The next ten firings of the schedule that is being typed, or why it is none."""
    if not any(map(people.person(request).has_perm, (ADD_CRON, CHANGE_CRON))):
        raise NotFound(resource="page")
    timing = request.GET.get("timing", "")
    context: dict[str, Any] = {}
    if not timing.strip():
        return HttpResponse()
    try:
        schedule = schedules.typed(timing, tz=request.GET.get("zone", "UTC"))
        moments = schedules.upcoming(schedule, first=schedule.after(clock.now()), count=10)
        context["firings"] = [moment.astimezone(schedule.zone) for moment in moments]
    except BadSchedule as refusal:
        context["error"] = refusal.message
    return render(request, "scheduling/parts/firings.html", context)


@pages.acting("scheduling:cron", _button)
def cron_action(request: HttpRequest, name: str, action: str) -> str:
    do, sentence = {
        "pause": (operations.pause, "Paused: it does not fire until it is resumed."),
        "resume": (operations.resume, "Resumed: it fires again, starting with its next fire time."),
        "run": (operations.run_now, "Fired now, in addition to its schedule."),
        "reset": (operations.follow_code, "Reset to the code."),
        "remove": (operations.remove, "Removed: it fires no more."),
    }[action]
    do(name)  # refused where its function or its zone is gone
    audit.record(people.person(request), existing(queries.cron(name), NotFound(resource="cron")), sentence)
    return sentence
