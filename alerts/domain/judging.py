"""Which alerts a rule has, and whether to send a message: state, observation and moment in, the next state out. And the
text of that message, bounded however many alerts there are.

The words and the behaviour are those of Prometheus and its Alertmanager: `for`, `keep_firing_for`, one message for all
alerts of a rule, `group_interval`, `repeat_interval`. What differs: nothing that is not known resolves an alert.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from alerts.domain.rules import Condition, Observation, Unit, written

# Between two messages of one rule: what changes meanwhile is in the next one.
GROUP: Final = timedelta(minutes=5)
# Rules are judged every minute. After a longer pause nobody knows whether a condition held in between, so what is
# counted from its first moment (`for`, `keep_firing`) is counted anew.
PAUSE: Final = timedelta(minutes=5)
# What is not known for so long is forgotten: for example the disk of a machine that is gone.
FORGOTTEN: Final = timedelta(days=1)
MOST: Final = 200  # alerts of one rule; of more subjects than that, those with the largest numbers


class State(StrEnum):
    """`pending`: the condition holds, not yet for long enough. `resolved`: it holds no longer, and its message has yet
    to be sent."""

    PENDING = "pending"
    FIRING = "firing"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One subject of one rule. `since`: when this state began; `below_since`: since when it is known that the condition
    holds no longer, while it fires; `is_notified`: a message that it fires was sent."""

    subject: str
    state: State
    value: float
    since: datetime
    known_at: datetime
    below_since: datetime | None = None
    is_notified: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The times of a rule. `repeat` of 0: a message comes once."""

    hold: timedelta = timedelta(0)
    keep_firing: timedelta = timedelta(0)
    repeat: timedelta = timedelta(0)
    muted_until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What is kept of a rule between two judgements: its alerts by subject, when it was last observed, and when it last
    sent a message."""

    alerts: Mapping[str, Alert] = field(default_factory=dict)
    observed_at: datetime | None = None
    notified_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a rule: all that fires, the new ones among them, and what no longer does. `omitted`: for how many
    more subjects the condition holds, that have no alert of their own."""

    firing: tuple[Alert, ...] = ()
    new: tuple[Alert, ...] = ()
    resolved: tuple[Alert, ...] = ()
    omitted: int = 0


def judge(
    policy: Policy, memory: Memory, observation: Observation | None, *, observed_at: datetime, now: datetime
) -> tuple[Memory, Message | None]:
    """The next state of a rule, and the message that is due.

    `observation` None: nothing is known; it changes no alert, and a message that is due to be repeated is. One that is
    older than what was judged already counts as none. Moments that lie ahead of `now` (the clock went back) count as
    `now`.
    """
    memory = _not_ahead(memory, now)
    omitted = 0
    if observation is not None and (memory.observed_at is None or observed_at > memory.observed_at):
        memory = _observed(policy, memory, observation, observed_at)
        omitted = len(observation.above.keys() - memory.alerts.keys())
    message = _message(policy, memory, now, omitted=omitted)
    return (memory, None) if message is None else (_notified(memory, now), message)


def _observed(policy: Policy, memory: Memory, observation: Observation, at: datetime) -> Memory:
    is_resumed = memory.observed_at is not None and at - memory.observed_at > PAUSE
    known = {
        subject: next_alert
        for subject, alert in memory.alerts.items()
        if (next_alert := _next(policy, alert, observation, at, is_resumed=is_resumed))
    }
    state = State.PENDING if policy.hold else State.FIRING
    for subject in _new(observation, known):
        known[subject] = Alert(subject=subject, state=state, value=observation.above[subject], since=at, known_at=at)
    return replace(memory, alerts=known, observed_at=at)


def _new(observation: Observation, known: Mapping[str, Alert]) -> list[str]:
    """The subjects that get an alert: those with the largest numbers, as far as there is room."""
    subjects = sorted(observation.above.keys() - known.keys(), key=lambda name: (-observation.above[name], name))
    return subjects[: max(0, MOST - len(known))]


def _next(policy: Policy, alert: Alert, observation: Observation, at: datetime, *, is_resumed: bool) -> Alert | None:
    value = observation.above.get(alert.subject)
    if value is not None:
        return _above(policy, replace(alert, value=value, known_at=at, below_since=None), at, is_resumed=is_resumed)
    if observation.is_below(alert.subject):
        return _below(policy, replace(alert, known_at=at), at, is_resumed=is_resumed)
    if is_resumed:
        return replace(alert, known_at=at)
    return None if at - alert.known_at > FORGOTTEN else alert


def _above(policy: Policy, alert: Alert, at: datetime, *, is_resumed: bool) -> Alert:
    if alert.state is State.RESOLVED:  # no message of its end was sent, so none of its next firing is
        return replace(alert, state=State.FIRING, since=at)
    if alert.state is State.FIRING:
        return alert
    if is_resumed:
        return replace(alert, since=at)
    return replace(alert, state=State.FIRING, since=at) if at - alert.since >= policy.hold else alert


def _below(policy: Policy, alert: Alert, at: datetime, *, is_resumed: bool) -> Alert | None:
    if alert.state is not State.FIRING:
        return alert if alert.state is State.RESOLVED else None
    since = at if alert.below_since is None or is_resumed else alert.below_since
    if at - since < policy.keep_firing:
        return replace(alert, below_since=since)
    return replace(alert, state=State.RESOLVED, since=at, below_since=None) if alert.is_notified else None


def _message(policy: Policy, memory: Memory, now: datetime, *, omitted: int) -> Message | None:
    if policy.muted_until is not None and now < policy.muted_until:
        return None
    since = None if memory.notified_at is None else now - memory.notified_at
    if since is not None and since < GROUP:
        return None
    firing, resolved = _by_number(memory, State.FIRING), _by_number(memory, State.RESOLVED)
    new = tuple(alert for alert in firing if not alert.is_notified)
    is_repeat = bool(firing and policy.repeat and since is not None and since >= policy.repeat)
    if not (new or resolved or is_repeat):
        return None
    return Message(firing=firing, new=new, resolved=resolved, omitted=omitted if firing else 0)


def _by_number(memory: Memory, state: State) -> tuple[Alert, ...]:
    alerts = [alert for alert in memory.alerts.values() if alert.state is state]
    return tuple(sorted(alerts, key=lambda alert: (-alert.value, alert.subject)))


def _notified(memory: Memory, now: datetime) -> Memory:
    alerts = {
        subject: replace(alert, is_notified=alert.state is State.FIRING)
        for subject, alert in memory.alerts.items()
        if alert.state is not State.RESOLVED
    }
    return replace(memory, alerts=alerts, notified_at=now)


def _not_ahead(memory: Memory, now: datetime) -> Memory:
    alerts = {
        subject: replace(
            alert, since=min(alert.since, now), known_at=min(alert.known_at, now),
            below_since=_earlier(alert.below_since, now, otherwise=now),
        )
        for subject, alert in memory.alerts.items()
    }  # fmt: skip
    return Memory(
        alerts=alerts,
        observed_at=_earlier(memory.observed_at, now, otherwise=None),
        notified_at=_earlier(memory.notified_at, now, otherwise=now),
    )


def _earlier(moment: datetime | None, now: datetime, *, otherwise: datetime | None) -> datetime | None:
    return otherwise if moment is not None and moment > now else moment


LISTED: Final = 20  # alerts that a message names; it counts the others
_LONGEST: Final = 120  # characters of a subject in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    title: str
    body: str


def compose(
    message: Message, *, rule: str, severity: str, condition: Condition, threshold: float, url: str = ""
) -> Text:
    """The message of a rule in words, under a line in Alertmanager's form. `url`: where the alerts are shown."""
    number = len(message.firing) + message.omitted
    title = f"[FIRING:{number}] {rule}" if message.firing else f"[RESOLVED] {rule}"
    lines = [_state(message, rule, severity), _numbers(condition, threshold)]
    lines += _section("Firing", message.firing, condition, omitted=message.omitted)
    lines += _section("Resolved", message.resolved, condition)
    return Text(title=title, body="\n".join([*lines, *(["", url] if url else [])]) + "\n")


def _state(message: Message, rule: str, severity: str) -> str:
    if not message.firing:
        return f"{rule}: resolved."
    return f"{rule}: {'firing' if message.new else 'still firing'} ({severity})."


def _numbers(condition: Condition, threshold: float) -> str:
    above = "" if condition.unit is Unit.PRESENCE else f": more than {written(threshold, unit=condition.unit)}"
    return f"{condition.title}{above}."


def _section(heading: str, alerts: Sequence[Alert], condition: Condition, *, omitted: int = 0) -> Iterator[str]:
    if alerts:
        yield from ("", f"{heading}:")
        yield from (_line(alert, condition) for alert in alerts[:LISTED])
    if more := max(0, len(alerts) - LISTED) + omitted:
        yield f"- and {more:,} more"


def _line(alert: Alert, condition: Condition) -> str:
    number = written(alert.value, unit=condition.unit)
    named = ": ".join(part for part in (_short(alert.subject), number) if part)
    mark = "" if alert.is_notified else ", new"
    return f"- {named or condition.title}, since {alert.since:%Y-%m-%d %H:%M} UTC{mark}"


def _short(subject: str) -> str:
    """A subject in one line: names of queues and keys of limits are chosen by people."""
    line = "".join(character if character.isprintable() else " " for character in subject)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
