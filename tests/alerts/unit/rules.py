"""A rule that is judged again and again, at moments of a test's own."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from alerts.domain.judging import Alert, Memory, Message, Policy, judge
from alerts.domain.rules import Observation

BEGIN = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@dataclass
class Judged:
    """One rule from `BEGIN` on. `messages` are those that it sent, each with the minute that it was sent in."""

    policy: Policy = field(default_factory=Policy)
    memory: Memory = field(default_factory=Memory)
    messages: list[tuple[float, Message]] = field(default_factory=list)

    def at(self, minute: float, observation: Observation | None, *, read: float | None = None) -> Message | None:
        """Judge it in this minute by what was read there, or in an earlier one."""
        now = BEGIN + minute * MINUTE
        observed_at = now if read is None else BEGIN + read * MINUTE
        self.memory, message = judge(self.policy, self.memory, observation, observed_at=observed_at, now=now)
        if message is not None:
            self.messages.append((minute, message))
        return message

    def during(self, minutes: range, observation: Observation | None) -> None:
        """Judge it in each of these minutes."""
        for minute in minutes:
            self.at(minute, observation)

    @property
    def sent(self) -> list[tuple[float, str, str]]:
        """Of each message its minute, and the subjects that it says fire and are resolved."""
        return [(minute, _names(message.firing), _names(message.resolved)) for minute, message in self.messages]


def above(*subjects: str, value: float = 9.0) -> Observation:
    """The condition holds for these, and for nothing else."""
    return Observation(above=dict.fromkeys(subjects, value))


def _names(alerts: tuple[Alert, ...]) -> str:
    return " ".join(alert.subject for alert in alerts)
