from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Count, DateTimeField, Q, QuerySet
from django.db.models.functions import Coalesce, Now

from alerts.domain import judging
from alerts.domain.judging import Memory, State
from alerts.models import Alert, Notification, Rule

SHOWN: Final = 100  # notifications on the page
_STATE: Final = ("subject", "state", "value", "since", "known_at", "below_since", "is_notified")


def memories(rules: Sequence[Rule]) -> dict[int, Memory]:
    alerts: dict[int, dict[str, judging.Alert]] = {rule.pk: {} for rule in rules}
    for row in Alert.objects.filter(rule__in=rules):
        state = {name: getattr(row, name) for name in _STATE} | {"state": State(row.state)}
        alerts[row.rule_id][row.subject] = judging.Alert(**state)
    return {
        rule.pk: Memory(alerts=alerts[rule.pk], observed_at=rule.observed_at, notified_at=rule.notified_at)
        for rule in rules
    }


def keep(rule: Rule, before: Memory, after: Memory, *, unknown: str) -> bool:
    """Keep what judging made of a rule; whether anything changed that pages show."""
    gone = before.alerts.keys() - after.alerts.keys()
    changed = [alert for subject, alert in after.alerts.items() if before.alerts.get(subject) != alert]
    if gone:
        Alert.objects.filter(rule=rule, subject__in=gone).delete()
    Alert.objects.bulk_create(
        [Alert(rule=rule, **{name: getattr(alert, name) for name in _STATE}) for alert in changed],
        update_conflicts=True, unique_fields=["rule", "subject"], update_fields=[*_STATE[1:]],
    )  # fmt: skip
    is_shown_otherwise = rule.unknown != unknown or rule.notified_at != after.notified_at
    Rule.objects.filter(pk=rule.pk).update(
        observed_at=after.observed_at, notified_at=after.notified_at, unknown=unknown
    )
    return bool(gone or changed or is_shown_otherwise)


def unknown(*, for_s: float, limit: int) -> list[Rule]:
    """The enabled rules of which nothing has been known for so long, by name."""
    before = Now() - timedelta(seconds=for_s)
    since = Coalesce("observed_at", "created_at", output_field=DateTimeField())
    rows = Rule.objects.filter(is_enabled=True).exclude(unknown="").alias(since=since).filter(since__lt=before)
    return list(rows.order_by("name")[:limit])


def locked_rule(pk: int) -> Rule | None:
    return Rule.objects.select_for_update().filter(pk=pk).first()


def rules() -> "QuerySet[Rule]":
    count = {state.value: Count("alerts", filter=Q(alerts__state=state)) for state in (State.FIRING, State.PENDING)}
    return Rule.objects.annotate(**count).order_by("name")


def alerts(*, limit: int, rule_id: int = 0) -> list[Alert]:
    rows = Alert.objects.filter(rule__is_enabled=True).exclude(state=State.RESOLVED).select_related("rule")
    rows = rows.filter(rule=rule_id) if rule_id else rows
    return list(rows.order_by("state", "rule__severity", "rule__name", "-value", "subject")[:limit])


def count_alerts(*, rule_id: int = 0) -> Mapping[str, int]:
    rows = Alert.objects.filter(rule__is_enabled=True, **({"rule": rule_id} if rule_id else {}))
    return dict(rows.order_by("state").values_list("state").annotate(number=Count("pk")))


def notifications(*, rule_id: int = 0) -> list[Notification]:
    rows = Notification.objects.select_related("rule")
    return list((rows.filter(rule=rule_id) if rule_id else rows).order_by("-pk")[:SHOWN])


def last_observed_at() -> datetime | None:
    """When a rule was last judged with something known; None if none ever was."""
    rows = Rule.objects.filter(is_enabled=True, observed_at__isnull=False)
    return rows.order_by("-observed_at").values_list("observed_at", flat=True).first()
