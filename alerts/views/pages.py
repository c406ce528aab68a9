"""Pages of alerts: what fires, the rules, and the messages. For whoever may see rules in the administration."""

from functools import partial
from typing import Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from alerts import operations, registry
from alerts.errors import BadRule
from alerts.models import Rule
from alerts.views.forms import MuteForm, RuleForm
from core import pages, people

SEE: Final = "alerts.view_rule"
MAKE: Final = "alerts.add_rule"
CHANGE: Final = "alerts.change_rule"
DELETE: Final = "alerts.delete_rule"
_for = partial(pages.for_holders, is_hidden=False)


@_for(SEE)
def overview(request: HttpRequest) -> HttpResponse:
    return render(request, "alerts/list.html", {"may_make": request.user.has_perm(MAKE)})


@_for(MAKE, pages.FORM)
def new(request: HttpRequest) -> HttpResponse:
    """Choose a condition, then fill in the rest of a rule for it."""
    condition = registry.find(request.GET.get("condition", ""))
    if condition is None:
        return render(request, "alerts/conditions.html", {"conditions": registry.everything()})
    form = RuleForm(request.POST or None, condition=condition)
    if form.is_valid():
        try:
            row = operations.make(condition.code, form.values(), by=people.person(request))
        except BadRule as refusal:
            form.refuse(refusal)
        else:
            messages.success(request, "The rule was made. It is judged within a minute.")
            return redirect("alerts:rule", row.pk)
    context = {"form": form, "condition": condition}
    return render(request, "alerts/new.html", context, status=422 if form.errors else 200)


@_for(SEE, pages.FORM)
def rule(request: HttpRequest, rule_id: int) -> HttpResponse:
    row = get_object_or_404(Rule, pk=rule_id)
    if request.method != "POST" or not request.user.has_perm(CHANGE):
        return _page(request, row, None, status=403 if request.method == "POST" else 200)
    form = RuleForm(request.POST, condition=registry.find(row.condition), rule=row)
    if form.is_valid():
        try:
            operations.change(rule_id, form.values(), by=people.person(request))
        except BadRule as refusal:
            form.refuse(refusal)
        else:
            messages.success(request, "The rule was changed.")
            return redirect("alerts:rule", rule_id)
    return _page(request, row, form, status=422)


@_for(CHANGE, pages.POST)
def test(request: HttpRequest, rule_id: int) -> HttpResponse:
    """Send a message to each of its recipients, to see that it arrives."""
    if sent := operations.send_test(rule_id, by=people.person(request)):
        messages.success(request, f"Test messages on their way: {len(sent)}. Below is what becomes of each.")
    else:
        messages.warning(request, "Nothing was sent: it names no recipient.")
    return redirect("alerts:rule", rule_id)


@_for(CHANGE, pages.POST)
def mute(request: HttpRequest, rule_id: int) -> HttpResponse:
    form = MuteForm(request.POST)
    if not form.is_valid():
        return _page(request, get_object_or_404(Rule, pk=rule_id), None, status=422)
    operations.mute(rule_id, for_s=form.for_s, by=people.person(request))
    messages.success(request, "Muted: it is judged, and sends nothing until then.")
    return redirect("alerts:rule", rule_id)


@_for(CHANGE, pages.POST)
def unmute(request: HttpRequest, rule_id: int) -> HttpResponse:
    operations.mute(rule_id, for_s=None, by=people.person(request))
    messages.success(request, "Unmuted.")
    return redirect("alerts:rule", rule_id)


@_for(DELETE, pages.POST)
def delete(request: HttpRequest, rule_id: int) -> HttpResponse:
    operations.remove(rule_id, by=people.person(request))
    messages.success(request, "The rule was deleted.")
    return redirect("alerts:list")


def _page(request: HttpRequest, row: Rule, form: RuleForm | None, *, status: int) -> HttpResponse:
    condition = registry.find(row.condition)
    context = {
        "rule": row,
        "condition": condition,
        "form": form or RuleForm(condition=condition, rule=row),
        "mute_form": MuteForm(),
        "may_change": request.user.has_perm(CHANGE),
        "may_delete": request.user.has_perm(DELETE),
    }
    return render(request, "alerts/rule.html", context, status=status)
