"""Budgets: no submit is granted while what is used and reserved leaves it no room.

A submit names what it reserves (`budgets`), the call that ends a job what it used (`used`). A job has its reservation
for certain from its submit's answer until a call last shows it living, and what it used from the answer to its end on.
In between, and where no call shows either, it counts for nothing: of a job that used more than was reserved all counts.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.histories.history import FOREVER, Bound, Call, History

_LIVES = frozenset({"claim", "report", "child", "checkpoint", "finish", "release", "withdraw", "cancel"})


@dataclass(slots=True)
class Reserved:
    """What one job has of a budget: from when until when for certain, and what of it was used from when on."""

    job: int
    amount: float
    begins: float
    granted: float
    lives: float
    used: float = 0.0
    over: float = FOREVER

    def least(self, begin: float, end: float) -> float:
        """What of it counts at every moment between these two."""
        if self.granted <= begin and end <= self.lives:
            return self.amount
        return self.used if self.over <= begin else 0.0


def faults(history: History) -> Iterator[str]:
    """The first submit for each budget that it had no room for."""
    lives = _lives(history.calls)
    for bound in (bound for bound in history.bounds if bound.rate is None):
        reserved = [*_reserved(history.calls, bound.name, lives)]
        yield from [*_beyond(bound, reserved)][:1]


def _beyond(bound: Bound, reserved: Sequence[Reserved]) -> Iterator[str]:
    for last in sorted(reserved, key=lambda one: one.granted):
        others = [(one.least(last.begins, last.granted), one.job) for one in reserved if one is not last]
        together = [one for one in reserved if one.begins <= last.granted <= one.lives and one.granted <= last.granted]
        sums = {sum(amount for amount, _ in others) + last.amount: [job for amount, job in others if amount],
                sum(one.amount for one in together): [one.job for one in together if one is not last]}  # fmt: skip
        if (most := max(sums)) > bound.most:
            yield (f"{bound.name} is {bound.most:g}, and {most:g} of it were granted by {last.granted:.3f}: "
                   f"to job {last.job} beside {', '.join(map(str, sorted(sums[most])))}")  # fmt: skip


def _reserved(calls: Sequence[Call], name: str, lives: dict[int, float]) -> Iterator[Reserved]:
    used = {call.job: call for call in calls if call.outcome == "ok" and name in call.more.get("used", {})}
    for call in calls:
        amount = call.more.get("budgets", {}).get(name)
        if call.call == "submit" and call.outcome == "ok" and call.job is not None and amount is not None:
            one = Reserved(call.job, amount, call.began, call.over, lives.get(call.job, call.over))
            if (end := used.get(call.job)) is not None:
                one.used, one.over = end.more["used"][name], end.over
            yield one


def _lives(calls: Sequence[Call]) -> dict[int, float]:
    """Until when each job had not ended for certain. A call may be repeated: only the first end says so."""
    found: dict[int, float] = defaultdict(float)
    ended: set[int] = set()
    for call in sorted(calls, key=lambda call: call.began):
        is_ok = call.outcome == "ok" and call.answer != "too_late" and call.call in _LIVES
        if is_ok and call.job is not None and call.job not in ended:
            found[call.job] = max(found[call.job], call.began)
        if call.job is not None and call.call in {"finish", "cancel"}:
            ended.add(call.job)
    return found
