"""Judging: an action reads the conditions, one mutation decides what fires and writes the messages (docs/alerts.md)."""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from alerts import queries, registry
from alerts.domain import conditions, messages
from alerts.domain.conditions import Condition, Observation, Reading, Unknown
from alerts.domain.judging import Alert, Memory, Message, Policy
from alerts.domain.judging import judge as decide
from alerts.models import Rule
from alerts.operations import sending
from live import operations as live
from outbox import operations as outbox
from postgres import clock
from scheduling import operations as scheduling
from scheduling.operations import Json

log = logging.getLogger(__name__)
TOPIC: Final = "alerts"
CRON: Final = "judge alerts"
_AT_ONCE: Final = 200  # rules that one transaction judges
_LONGEST_REASON: Final = 200  # characters of why nothing is known of a rule


@scheduling.action(timeout=50, idempotent=True)
def watch() -> int:
    """Read every condition that a rule watches, and judge the rules; how many there are.

    An action, since a reading may look at this machine's disk, and many statements need no serializable transaction.
    It runs in a cluster for actions, as the messages do: with one for mutations away it still reports that.
    """
    rules = list(Rule.objects.filter(is_enabled=True).order_by("pk"))
    failures = scheduling.Failures()
    for start in range(0, len(rules), _AT_ONCE):
        some = rules[start : start + _AT_ONCE]
        with failures.aside(f"rules {some[0].pk} to {some[-1].pk}"):
            judge(readings=_readings(some))
    failures.raise_any()
    return len(rules)


@scheduling.mutation
def judge(*, readings: Json) -> list[int]:
    """Judge rules by readings of `watch`: write what fires, and the messages that are due with their sending, all or
    nothing; the ids of these messages.

    Rules are locked, and a reading that is not newer than what a rule was judged by counts for nothing: of several
    that judge at once, one sends. A rule that cannot be judged stays as it was and says why; the others are judged.
    """
    assert isinstance(readings, dict)
    rules = list(Rule.objects.select_for_update().filter(pk__in=map(int, readings), is_enabled=True).order_by("pk"))
    memories = queries.memories(rules)
    now = clock.now()
    sent: list[int] = []
    failures = scheduling.Failures()
    for rule in rules:
        with failures.aside(rule.name):
            sent += _judge(rule, memories[rule.pk], readings[str(rule.pk)], now)
    for rule in rules:
        if reason := failures.reasons.get(rule.name):
            Rule.objects.filter(pk=rule.pk).update(unknown=f"It cannot be judged: {reason}"[:_LONGEST_REASON])
            live.touch(TOPIC)
    return sent


def _readings(rules: Sequence[Rule]) -> dict[str, Json]:
    """What each rule sees. Rules that watch the same share one reading, and it is as old as its beginning."""
    read: dict[tuple[str, int], tuple[datetime, Reading | Unknown]] = {}
    seen: dict[str, Json] = {}
    for rule in rules:
        known = registry.find(rule.condition)
        key = (rule.condition, rule.window_s if known and known.is_windowed else 0)
        if key not in read:
            read[key] = (clock.now(), registry.read(rule.condition, window_s=rule.window_s))
        at, reading = read[key]
        seen[str(rule.pk)] = {"at": at.isoformat(), **_seen(reading, rule)}
    return seen


def _seen(reading: Reading | Unknown, rule: Rule) -> dict[str, Json]:
    """What a rule sees in a reading; a reading that is none is not known."""
    if isinstance(reading, Unknown):
        return {"unknown": reading.reason}
    try:
        observation = conditions.observe(reading, target=rule.target, threshold=rule.threshold)
        below = None if observation.below is None else sorted(observation.below)
        return {"above": dict(observation.above), "below": below}
    except Exception as error:
        log.exception("What the condition %s read is no reading", rule.condition)
        return {"unknown": f"What was read makes no sense: {scheduling.reason_of(error)}"}


def _judge(rule: Rule, memory: Memory, reading: Json, now: datetime) -> list[int]:
    assert isinstance(reading, dict)
    at = datetime.fromisoformat(str(reading["at"]))
    times = {name: timedelta(seconds=getattr(rule, f"{name}_s")) for name in ("hold", "keep_firing", "repeat")}
    policy = Policy(muted_until=rule.muted_until, **times)
    after, message = decide(policy, memory, _observation(reading), observed_at=at, now=now)
    if queries.keep(rule, memory, after, unknown=str(reading.get("unknown", ""))[:_LONGEST_REASON]):
        live.touch(TOPIC)
    condition = registry.find(rule.condition)
    return [] if message is None or condition is None else _send(rule, message, condition)


def _observation(reading: dict[str, Json]) -> Observation | None:
    if "unknown" in reading:
        return None
    above, below = reading["above"], reading["below"]
    assert isinstance(above, dict)
    assert below is None or isinstance(below, list)
    return Observation(
        above={subject: float(str(value)) for subject, value in above.items()},
        below=None if below is None else frozenset(map(str, below)),
    )


def _send(rule: Rule, message: Message, condition: Condition) -> list[int]:
    text = messages.compose(
        message, rule=rule.name, severity=rule.severity, condition=condition, threshold=rule.threshold,
        url=sending.page_url(),
    )  # fmt: skip
    made = sending.send_all(rule, text)
    _record(rule, "alert.firing", message.firing, omitted=message.omitted)
    _record(rule, "alert.resolved", message.resolved)
    return made


def _record(rule: Rule, event: str, alerts: Sequence[Alert], *, omitted: int = 0) -> None:
    """Write an event for the endpoints of the whole farm, if there are any."""
    if not alerts:
        return
    about = {"rule_id": rule.pk, "rule": rule.name, "condition": rule.condition, "severity": rule.severity}
    listed = [{"subject": alert.subject, "value": alert.value, "since": alert.since.isoformat()} for alert in alerts]
    data = {**about, "threshold": rule.threshold, "alerts": listed, "omitted": omitted}
    outbox.record(event, f"alert/{rule.pk}", data)
