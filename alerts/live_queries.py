"""Live queries of alerts: what fires, the rules, and the messages. For whoever may see rules."""

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from django.conf import settings
from django.urls import NoReverseMatch, reverse

from alerts import operations, queries, registry
from alerts.domain.rules import written
from alerts.models import Alert, Rule
from live.registry import for_holders, live_query
from postgres import clock

OPERATOR: Final = "operator"
SHOWN: Final = 100  # alerts on a page
_LATE: Final = timedelta(minutes=3)  # rules are judged every minute
_shown = partial(live_query, audiences=(OPERATOR,), may_see=for_holders("alerts.view_rule"), at_most_every_s=1.0)


@_shown("alerts", topics=lambda **_: [operations.TOPIC])
def alerts(*, rule_id: int = 0) -> Mapping[str, Any]:
    """What fires now or is about to, of one rule or of all; and whether anybody judges."""
    counts, judged_at = queries.count_alerts(rule_id=rule_id), queries.last_observed_at()
    return {
        "alerts": [_entry(alert) for alert in queries.alerts(limit=SHOWN, rule_id=rule_id)],
        "firing": counts.get("firing", 0),
        "pending": counts.get("pending", 0),
        "is_one": bool(rule_id),
        "late_since": judged_at if judged_at is not None and clock.now() - judged_at > _LATE else None,
    }


@_shown("alert-rules", topics=lambda: [operations.TOPIC])
def rules() -> Mapping[str, Any]:
    return {"rules": [_described(rule) for rule in queries.rules()]}


@_shown("alert-rule", topics=lambda **_: [operations.TOPIC])
def rule(*, rule_id: int) -> Mapping[str, Any] | None:
    row = queries.rules().filter(pk=rule_id).first()
    return None if row is None else {"entry": _described(row)}


@_shown("alert-notifications", topics=lambda **_: [operations.TOPIC])
def notifications(*, rule_id: int = 0) -> Mapping[str, Any]:
    """The last messages, and what became of each; of one rule or of all."""
    return {"notifications": queries.notifications(rule_id=rule_id)}


def _entry(alert: Alert) -> dict[str, Any]:
    condition = registry.find(alert.rule.condition)
    return {
        "row": alert,
        "url": _url(condition.page, alert.subject) if condition else "",
        "value": written(alert.value, unit=condition.unit) if condition else f"{alert.value:g}",
    }


def _url(page: str, subject: str) -> str:
    """Where a subject is shown; empty where this site leaves that page out, or the subject fits no address."""
    name, _, query = page.partition("?")
    for args in ([], [subject]):
        with suppress(NoReverseMatch):
            address = reverse(name, args=args)
            return f"{address}?{query}{quote(subject, safe='') if query.endswith('=') else ''}" if query else address
    return ""


def _described(row: Rule) -> dict[str, Any]:
    condition = registry.find(row.condition)
    return {
        "row": row,
        "title": condition.title if condition else row.condition,
        "number": written(row.threshold, unit=condition.unit) if condition else "",
        "is_muted": row.muted_until is not None and row.muted_until > clock.now(),
        "cannot_mail": bool(row.mail_to) and not settings.HAS_MAIL_SERVER,
    }
