"""The text of a message: one for all alerts of a rule, and bounded however many there are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from alerts.domain.conditions import Condition, Unit, written
from alerts.domain.judging import Alert, Message

LISTED: Final = 20  # alerts that a message names; it counts the others
_LONGEST: Final = 120  # characters of a subject in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    title: str
    body: str


def compose(
    message: Message, *, rule: str, severity: str, condition: Condition, threshold: float, url: str = ""
) -> Text:
    """The message of a rule in words. `url`: where the alerts are shown."""
    lines = [*_state(message, rule, severity), *_numbers(condition, threshold)]
    lines += _section("Firing", message.firing, condition, omitted=message.omitted)
    lines += _section("Resolved", message.resolved, condition)
    return Text(title=title(message, rule=rule), body="\n".join([*lines, *(["", url] if url else [])]) + "\n")


def title(message: Message, *, rule: str) -> str:
    """The line above it, in Alertmanager's form."""
    if not message.firing:
        return f"[RESOLVED] {rule}"
    return f"[FIRING:{len(message.firing) + message.omitted}] {rule}"


def _state(message: Message, rule: str, severity: str) -> Iterator[str]:
    if not message.firing:
        yield f"{rule}: resolved."
    elif message.new:
        yield f"{rule}: firing ({severity})."
    else:
        yield f"{rule}: still firing ({severity})."


def _numbers(condition: Condition, threshold: float) -> Iterator[str]:
    if condition.unit is Unit.PRESENCE:
        yield f"{condition.title}."
    else:
        yield f"{condition.title}: more than {written(threshold, unit=condition.unit)}."


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
