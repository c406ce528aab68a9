"""What becomes of a job whose attempt ended without success."""

import random
from dataclasses import dataclass

from jobs.domain.states import AttemptOutcome, Status

LONGEST_S = 5 * 366 * 86400  # of any wait
FREE_RELEASES = 3  # in a row: a worker that shuts down gives a job back at once, and so may the next two


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """How long a failed job waits: `first_s * base**(failures - 1)`, at most `cap_s`, spread by `jitter`.

    `jitter` 0.5 means: uniformly between half and one and a half times of that, still at most the cap.
    """

    first_s: float = 1.0
    base: float = 2.0
    cap_s: float = 3600.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        sensible = 0 <= self.first_s <= LONGEST_S and 1 <= self.base <= 1000 and 0 <= self.jitter <= 1
        if not (sensible and 0 <= self.cap_s <= LONGEST_S):
            raise ValueError(f"a backoff needs waits from 0, a base 1 to 1000, a jitter 0 to 1, got {self}")

    def delay_s(self, failures: int, *, rng: random.Random) -> float:
        """Seconds to wait after failure number `failures` (1 is the first)."""
        # 64 doublings are past any cap, and 1000 ** 64 is far from where a float overflows (1e308).
        plain = self.first_s * self.base ** min(failures - 1, 64)
        spread = rng.uniform(1 - self.jitter, 1 + self.jitter)
        return min(min(plain, self.cap_s) * spread, self.cap_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What follows: the job's next status, its failures so far, for PENDING the seconds until it is due, and how often
    in a row it was released."""

    status: Status
    failures: int
    delay_s: float = 0.0
    releases: int = 0


def judge(
    outcome: AttemptOutcome,
    *,
    failures: int,
    max_attempts: int,
    retryable: bool,
    backoff: Backoff,
    rng: random.Random,
    releases: int = 0,
) -> Judgement:
    """Decide whether a job is tried again (DESIGN promises 5 and 6).

    `failures` counts the ones before this attempt. `retryable` is the worker's word for a failure, the kind's
    `retry_when_lost` for a lost attempt and its `retry_on_timeout` for a run that took too long. A lost attempt has
    cost its lease's time already: the job is due at once. A release is no failure: the job is due at once too, unless
    it was released FREE_RELEASES times in a row before (`releases`), then with the backoff of failures. A lease that
    nobody confirmed changes nothing.
    """
    match outcome:
        case AttemptOutcome.UNCONFIRMED:
            return Judgement(status=Status.PENDING, failures=failures, releases=releases)
        case AttemptOutcome.RELEASED:
            surplus = releases + 1 - FREE_RELEASES
            delay_s = backoff.delay_s(surplus, rng=rng) if surplus > 0 else 0.0
            return Judgement(
                status=Status.PENDING, failures=failures, delay_s=delay_s, releases=min(releases + 1, 1000)
            )
        case AttemptOutcome.CANCELED:
            return Judgement(status=Status.CANCELED, failures=failures)
    failed = failures + 1
    if retryable and failed < max_attempts:
        delay_s = 0.0 if outcome is AttemptOutcome.LOST else backoff.delay_s(failed, rng=rng)
        return Judgement(status=Status.PENDING, failures=failed, delay_s=delay_s)
    return Judgement(
        status=Status.FAILED if outcome is AttemptOutcome.FAILED else Status.TIMED_OUT, failures=failed
    )
