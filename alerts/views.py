"""Pages of alerts: what fires, the rules and their forms, and the messages. For whoever may see rules in the
administration. Forms speak of minutes and hours, where operations speak of seconds.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render

from alerts import operations, registry
from alerts.domain import rules
from alerts.domain.rules import Condition, Unit
from alerts.errors import BadRule
from alerts.models import Rule
from core import pages, people

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_SCALES: Final = {"window_s": _MINUTE_S, "hold_s": _MINUTE_S, "keep_firing_s": _MINUTE_S, "repeat_s": _HOUR_S}
_UNITS: Final = {Unit.SECONDS: "Seconds.", Unit.PERCENT: "Percent.", Unit.NUMBER: "A number; 0 is: more than none."}


def _length(label: str, help_text: str, *, most: int, least: int = 0) -> forms.FloatField:
    return forms.FloatField(label=label, help_text=help_text, min_value=least, max_value=most)


class RuleForm(forms.Form):
    """A rule for one condition; the bounds of the whole are those of `alerts.domain.rules`."""

    name = forms.CharField(max_length=rules.LONGEST_NAME)
    target = forms.CharField(max_length=rules.LONGEST_TARGET, required=False)
    threshold = forms.FloatField(label="More than", min_value=0)
    window_s = _length("Within", "Minutes that are counted together.", least=5, most=1440)
    hold_s = _length("For", "Minutes that it must hold before it fires.", most=10080)
    keep_firing_s = _length("Keep firing for", "Minutes that it must not hold before it is resolved.", most=10080)
    repeat_s = _length("Repeat every", "Hours between messages while it fires; 0: once.", most=168)
    severity = forms.ChoiceField(choices=[(one.value, one.value.capitalize()) for one in rules.Severity])
    mail_to = forms.CharField(
        label="Mail to", required=False, help_text="Up to ten addresses, with commas or spaces between them.",
        widget=forms.Textarea(attrs={"rows": 2, "spellcheck": "false"}),
    )  # fmt: skip
    webhook_url = forms.CharField(
        label="Webhook", required=False, max_length=2000,
        widget=forms.TextInput(attrs={"inputmode": "url", "autocomplete": "off", "spellcheck": "false"}),
    )  # fmt: skip
    without_webhook = forms.BooleanField(label="Remove the webhook", required=False)
    is_enabled = forms.BooleanField(label="Enabled", required=False)

    def __init__(
        self, data: Mapping[str, Any] | None = None, *, condition: Condition | None, rule: Rule | None = None
    ) -> None:
        super().__init__(data, initial=_initial(condition, rule))
        self._rule = rule
        self._fit_condition(condition)
        self._fit_webhook(rule.webhook_host if rule else "")
        if not settings.HAS_MAIL_SERVER:
            self.fields["mail_to"].help_text = "This farm has no mail server (EMAIL_HOST), so no mail is sent."

    def values(self) -> dict[str, Any]:
        cleaned = dict(self.cleaned_data)
        for name, scale in _SCALES.items():
            cleaned[name] = round(cleaned[name] * scale) if name in cleaned else getattr(self._rule, name, 900)
        cleaned.setdefault("threshold", 0.0)
        cleaned.setdefault("target", "")
        url, is_removed = cleaned.pop("webhook_url").strip(), cleaned.pop("without_webhook", False)
        return cleaned | {"webhook_url": url or ("" if is_removed else None)}

    def refuse(self, refusal: BadRule) -> None:
        field = refusal.field if refusal.field in self.fields else None
        self.add_error(field, refusal.reason if field else refusal.message)

    def _fit_condition(self, condition: Condition | None) -> None:
        if condition is None or condition.unit is Unit.PRESENCE:
            del self.fields["threshold"]
        else:
            self.fields["threshold"].help_text = _UNITS[condition.unit]
        if condition is None or not condition.is_windowed:
            del self.fields["window_s"]
        if condition is None or not condition.target:
            del self.fields["target"]
        else:
            self.fields["target"].label = condition.target.capitalize()
            self.fields["target"].help_text = "Empty: any; each has an alert of its own, all in one message."

    def _fit_webhook(self, host: str) -> None:
        takes = "An address that takes Slack's messages"
        self.fields["webhook_url"].help_text = f"{takes}; empty: it stays at {host}." if host else f"{takes}."
        if not host:
            del self.fields["without_webhook"]


class MuteForm(forms.Form):
    hours = forms.TypedChoiceField(
        label="Mute for", coerce=int, choices=[(1, "1 hour"), (4, "4 hours"), (24, "1 day"), (168, "1 week")]
    )


def _initial(condition: Condition | None, rule: Rule | None) -> dict[str, Any]:
    if rule is None:
        threshold = condition.threshold if condition else 0
        first = {"name": condition.title if condition else "", "threshold": threshold, "is_enabled": True}
        return first | {"window_s": 15, "hold_s": 5, "keep_firing_s": 5, "repeat_s": 4, "severity": "warning"}
    names = ("name", "target", "threshold", "severity", "mail_to", "is_enabled")
    kept = {name: getattr(rule, name) for name in names}
    return kept | {name: f"{getattr(rule, name) / scale:.10g}" for name, scale in _SCALES.items()}


SEE: Final = "alerts.view_rule"
CHANGE: Final = "alerts.change_rule"
_for = partial(pages.for_holders, is_hidden=False)


@_for(SEE)
def overview(request: HttpRequest) -> HttpResponse:
    return render(request, "alerts/list.html")


@_for("alerts.add_rule", pages.FORM)
def new(request: HttpRequest) -> HttpResponse:
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


_acting = pages.acting("alerts:rule", _for(CHANGE, pages.POST))


@_acting
def test(request: HttpRequest, rule_id: int) -> pages.Answer:
    if sent := operations.send_test(rule_id, by=people.person(request)):
        return f"Test messages on their way: {len(sent)}. Below is what becomes of each."
    return messages.WARNING, "Nothing was sent: it names no recipient."


@_acting
def mute(request: HttpRequest, rule_id: int) -> pages.Answer:
    form = MuteForm(request.POST)
    if not form.is_valid():
        return _page(request, get_object_or_404(Rule, pk=rule_id), None, status=422)
    operations.mute(rule_id, for_s=form.cleaned_data["hours"] * _HOUR_S, by=people.person(request))
    return "Muted: it is judged, and sends nothing until then."


@_acting
def unmute(request: HttpRequest, rule_id: int) -> str:
    operations.mute(rule_id, for_s=None, by=people.person(request))
    return "Unmuted."


@_for("alerts.delete_rule", pages.POST)
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
    }
    return render(request, "alerts/rule.html", context, status=status)
