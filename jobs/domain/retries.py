"""What becomes of a job whose attempt ended without success."""

import random
from dataclasses import dataclass, replace

from core.backoff import Backoff
from jobs.domain.states import AttemptOutcome, Status

FREE_RELEASES = 3  # in a row: a worker that shuts down gives a job back at once, and so may the next two


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What follows: the job's next status, its failures so far, for PENDING the seconds until it is due, how often in a
    row it was released or no call named its lease, and as what the attempt counts."""

    status: Status
    failures: int
    outcome: AttemptOutcome
    delay_s: float = 0.0
    releases: int = 0
    unconfirmed: int = 0


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
    """Decide whether a job is retried (promises 5 and 6 of docs/promises.md).

    `failures` counts the ones before this attempt. `retryable` is the worker's word for a failure, the kind's
    `retry_when_lost` for a lost attempt and its `retry_on_timeout` for a run that took too long. A lost attempt has
    cost its lease's time already: the job is due at once. A release is no failure: the job is due at once too, unless
    it was released FREE_RELEASES times in a row before (`releases`), then with the backoff of failures.
    """
    match outcome:
        case AttemptOutcome.RELEASED:
            surplus = releases + 1 - FREE_RELEASES
            delay_s = backoff.delay_s(surplus, rng=rng) if surplus > 0 else 0.0
            return Judgement(
                status=Status.PENDING, failures=failures, outcome=outcome, delay_s=delay_s,
                releases=min(releases + 1, 1000),
            )  # fmt: skip
        case AttemptOutcome.SUSPENDED:
            return Judgement(status=Status.PENDING, failures=failures, outcome=outcome)
        case AttemptOutcome.CANCELED:
            return Judgement(status=Status.CANCELED, failures=failures, outcome=outcome)
    failed = _failed(outcome, failures + 1, max_attempts, retryable=retryable)
    waits = failed.status is Status.PENDING and outcome is not AttemptOutcome.LOST
    return replace(failed, delay_s=backoff.delay_s(failures + 1, rng=rng)) if waits else failed


def judge_unconfirmed(
    *,
    failures: int,
    max_attempts: int,
    retryable: bool,
    backoff: Backoff,
    rng: random.Random,
    releases: int = 0,
    unconfirmed: int,
    most: int,
) -> Judgement:
    """The same for a lease that no call named. One costs nothing, since its answer may have been lost on the way.

    The next in a row (`unconfirmed` were before) have a delay, for the job may end its workers before they say a word;
    from the `most`-th on each is a lost attempt.
    """
    count = min(unconfirmed + 1, 1000)
    delay_s = backoff.delay_s(count - 1, rng=rng) if count > 1 else 0.0
    if count < most:
        same = Judgement(status=Status.PENDING, failures=failures, outcome=AttemptOutcome.UNCONFIRMED)
        return replace(same, delay_s=delay_s, releases=releases, unconfirmed=count)
    lost = _failed(AttemptOutcome.LOST, failures + 1, max_attempts, retryable=retryable)
    return replace(lost, delay_s=delay_s, unconfirmed=count)


def _failed(outcome: AttemptOutcome, failures: int, max_attempts: int, *, retryable: bool) -> Judgement:
    if retryable and failures < max_attempts:
        return Judgement(status=Status.PENDING, failures=failures, outcome=outcome)
    end = Status.FAILED if outcome is AttemptOutcome.FAILED else Status.TIMED_OUT
    return Judgement(status=end, failures=failures, outcome=outcome)
