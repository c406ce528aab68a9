import re
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render

from core import audit, pages, people
from core.verdicts import CancelVerdict
from postgres import clock
from scheduling import live_queries, operations
from scheduling.domain import schedules
from scheduling.domain.states import Status
from scheduling.errors import BadSchedule, NotEnded, NotFound, SchedulingError
from scheduling.forms import CronForm
from scheduling.models import ScheduledFunction
from scheduling.queries import pages as queries

OPERATE = "scheduling.operate_scheduledfunction"
ADD_CRON = "scheduling.add_cron"
CANCEL_MESSAGES = {
    CancelVerdict.BEFORE_START: "Canceled: it will never run.",
    CancelVerdict.BEFORE_RETRY: "Canceled: an earlier attempt failed, and there will be no further one.",
    CancelVerdict.WHILE_RUNNING: (
        "Canceled while running: it continues, but its outcome and whatever it schedules are ignored."
    ),
}
_ID = "[0-9]{1,18}"  # a bigint holds it


@pages.for_holders(live_queries.VIEW)
def functions(request: HttpRequest) -> HttpResponse:
    filters = {name: request.GET.get(name, "")[:200] for name in ("status", "function", "cron")}
    before = request.GET.get("before", "")
    shown = {**filters, "before": int(before) if re.fullmatch(_ID, before) else 0}
    context = {"shown": shown, "statuses": list(Status), "names": queries.names()}
    return render(request, "scheduling/functions.html", context)


@pages.for_holders(live_queries.VIEW)
def function(request: HttpRequest, function_id: int) -> HttpResponse:
    row = queries.function(function_id)
    if row is None:
        raise Http404("There is no such scheduled function.")
    return render(request, "scheduling/function.html", {"function": row, "may_operate": _may(request)})


@pages.for_holders(OPERATE, pages.POST)
def cancel(request: HttpRequest, function_id: int) -> HttpResponse:
    done = operations.cancel(function_id)
    if done.verdict is CancelVerdict.TOO_LATE:
        how = "it is running and will finish." if done.status is Status.PENDING else f"it has ended as {done.status}."
        messages.warning(request, f"Too late: {how}")
    else:
        audit.record(people.person(request), ScheduledFunction(pk=function_id), f"Canceled ({done.verdict}).")
        messages.success(request, CANCEL_MESSAGES[done.verdict])
    return redirect("scheduling:function", function_id)


@pages.for_holders(OPERATE, pages.POST)
def run_again(request: HttpRequest, function_id: int) -> HttpResponse:
    try:
        row = operations.run_again(function_id)
    except NotEnded as refusal:
        messages.warning(request, refusal.message)
        return redirect("scheduling:function", function_id)
    audit.record(people.person(request), row, f"Ran #{function_id} again.")
    messages.success(request, f"Scheduled again as #{row.pk}.")
    return redirect("scheduling:function", row.pk)


@pages.for_holders(live_queries.VIEW)
def crons(request: HttpRequest) -> HttpResponse:
    may_add = people.person(request).has_perm(ADD_CRON)
    return render(request, "scheduling/crons.html", {"may_add": may_add})


@pages.for_holders(live_queries.VIEW)
def cron(request: HttpRequest, name: str) -> HttpResponse:
    row = queries.cron(name)
    if row is None:
        raise Http404("There is no such cron.")
    may_edit = operations.is_editable(row) and people.person(request).has_perm("scheduling.change_cron")
    context = {"cron": row, "may_operate": _may(request), "may_edit": may_edit}
    return render(request, "scheduling/cron.html", context)


@pages.for_holders(ADD_CRON, pages.FORM)
def new_cron(request: HttpRequest) -> HttpResponse:
    form = CronForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        name = form.cleaned_data["name"]
        try:
            row = operations.make(name, function=form.cleaned_data["function"], **form.plan)
        except SchedulingError as refusal:  # somebody was quicker
            form.add_error(None, refusal.message)
        else:
            audit.record(people.person(request), row, "Added.")
            messages.success(request, "The cron was added.")
            return redirect("scheduling:cron", name)
    status = 422 if request.method == "POST" else 200
    return render(request, "scheduling/new_cron.html", {"form": form}, status=status)


def firings(request: HttpRequest) -> HttpResponse:
    """The next ten firings of the schedule that is being typed, or why it is none; the administration has it too."""
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


preview = pages.for_holders(ADD_CRON)(firings)


@pages.for_holders(OPERATE, pages.POST)
def cron_action(request: HttpRequest, name: str, action: str) -> HttpResponse:
    do, sentence = {
        "pause": (operations.pause, "Paused: it does not fire until it is resumed."),
        "resume": (operations.resume, "Resumed: it fires again, starting with its next fire time."),
        "run": (operations.run_now, "Fired now, in addition to its schedule."),
    }[action]
    try:
        do(name)
    except NotFound:
        raise
    except SchedulingError as refusal:  # its function or its zone is gone
        messages.error(request, refusal.message)
        return redirect("scheduling:cron", name)
    row = queries.cron(name)
    assert row is not None
    audit.record(people.person(request), row, sentence)
    messages.success(request, sentence)
    return redirect("scheduling:cron", name)


def _may(request: HttpRequest) -> bool:
    return people.person(request).has_perm(OPERATE)
