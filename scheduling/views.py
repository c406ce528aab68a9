"""Pages of scheduled functions and crons, for operators."""

import re
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from core import audit, people
from core.verdicts import CancelVerdict
from postgres import clock
from scheduling import live_queries, operations
from scheduling.domain import schedules
from scheduling.domain.states import Status
from scheduling.errors import BadSchedule, NotEnded, NotFound, SchedulingError
from scheduling.forms import CronForm
from scheduling.models import ScheduledFunction
from scheduling.queries import pages
from scheduling.templatetags.scheduling import wall

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

View = Callable[..., HttpResponse]


def _for(permission: str) -> Callable[[View], View]:
    """Whoever may not, finds nothing here; whoever is nobody yet is asked to log in."""

    def decorate(view: View) -> View:
        @wraps(view)
        def allowed(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not request.user.has_perm(permission):
                raise Http404("There is nothing at this address.")
            try:
                return view(request, *args, **kwargs)
            except NotFound as refusal:
                raise Http404(refusal.message) from refusal

        return login_required(allowed)

    return decorate


@require_safe
@_for(live_queries.VIEW)
def functions(request: HttpRequest) -> HttpResponse:
    filters = {name: request.GET.get(name, "")[:200] for name in ("status", "function", "cron")}
    before = request.GET.get("before", "")
    shown = {**filters, "before": int(before) if re.fullmatch(_ID, before) else 0}
    context = {"shown": shown, "statuses": list(Status), "names": pages.names()}
    return render(request, "scheduling/functions.html", context)


@require_safe
@_for(live_queries.VIEW)
def function(request: HttpRequest, function_id: int) -> HttpResponse:
    row = pages.function(function_id)
    if row is None:
        raise Http404("There is no such scheduled function.")
    return render(request, "scheduling/function.html", {"function": row, "may_operate": _may(request)})


@require_POST
@_for(OPERATE)
def cancel(request: HttpRequest, function_id: int) -> HttpResponse:
    done = operations.cancel(function_id)
    if done.verdict is CancelVerdict.TOO_LATE:
        how = "it is running and will finish." if done.status is Status.PENDING else f"it has ended as {done.status}."
        messages.warning(request, f"Too late: {how}")
    else:
        audit.record(people.person(request), ScheduledFunction(pk=function_id), f"Canceled ({done.verdict}).")
        messages.success(request, CANCEL_MESSAGES[done.verdict])
    return redirect("scheduling:function", function_id)


@require_POST
@_for(OPERATE)
def run_again(request: HttpRequest, function_id: int) -> HttpResponse:
    try:
        row = operations.run_again(function_id)
    except NotEnded as refusal:
        messages.warning(request, refusal.message)
        return redirect("scheduling:function", function_id)
    audit.record(people.person(request), row, f"Ran #{function_id} again.")
    messages.success(request, f"Scheduled again as #{row.pk}.")
    return redirect("scheduling:function", row.pk)


@require_safe
@_for(live_queries.VIEW)
def crons(request: HttpRequest) -> HttpResponse:
    """All crons, and the clusters that fire them."""
    may_add = people.person(request).has_perm(ADD_CRON)
    return render(request, "scheduling/crons.html", {"may_add": may_add})


@require_safe
@_for(live_queries.VIEW)
def cron(request: HttpRequest, name: str) -> HttpResponse:
    row = pages.cron(name)
    if row is None:
        raise Http404("There is no such cron.")
    may_edit = operations.is_editable(row) and people.person(request).has_perm("scheduling.change_cron")
    context = {"cron": row, "may_operate": _may(request), "may_edit": may_edit}
    return render(request, "scheduling/cron.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@_for(ADD_CRON)
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
    try:
        schedule = schedules.typed(request.GET.get("timing", ""), tz=request.GET.get("zone", "UTC"))
    except BadSchedule as refusal:
        return JsonResponse({"error": refusal.message})
    moments = schedules.upcoming(schedule, first=schedule.after(clock.now()), count=10)
    return JsonResponse({"firings": [wall(moment.astimezone(schedule.zone)) for moment in moments]})


preview = require_safe(_for(ADD_CRON)(firings))


@require_POST
@_for(OPERATE)
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
    row = pages.cron(name)
    assert row is not None
    audit.record(people.person(request), row, sentence)
    messages.success(request, sentence)
    return redirect("scheduling:cron", name)


def _may(request: HttpRequest) -> bool:
    return people.person(request).has_perm(OPERATE)
