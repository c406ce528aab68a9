"""What becomes of a job whose attempt ended without success."""

from collections.abc import Callable
from typing import NamedTuple

from jobs.domain.states import AttemptOutcome, Status

FREE_RELEASES = 3  # in a row: a worker that shuts down gives a job back at once, and so may the next two


class Judgement(NamedTuple):
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
    delay_s: Callable[[int], float],
    releases: int,
    unconfirmed: int,
    most: int,
) -> Judgement:
    """Decide whether a job is retried (promises 5 and 6 of docs/promises.md).

    `failures` counts the ones before this attempt; after so many the backoff is `delay_s`. `retryable` is the worker's
    word for a failure, the kind's `retry_when_lost` for a lost attempt and its `retry_on_timeout` for a run that took
    too long. A lost attempt has cost its lease's time already: the job is due at once. A release is no failure: the job
    is due at once too, unless it was released FREE_RELEASES times in a row before (`releases`), then with the backoff
    of failures. A lease that no call named costs nothing, since its answer may have been lost on the way. The next in a
    row (`unconfirmed` were before) have a delay, for the job may end its workers before they say a word; from the
    `most`-th on each is a lost attempt.
    """
    same = Judgement(status=Status.PENDING, failures=failures, outcome=outcome)
    match outcome:
        case AttemptOutcome.RELEASED:
            surplus = releases + 1 - FREE_RELEASES
            return same._replace(delay_s=delay_s(surplus) if surplus > 0 else 0.0, releases=min(releases + 1, 1000))
        case AttemptOutcome.SUSPENDED:
            return same
        case AttemptOutcome.CANCELED:
            return same._replace(status=Status.CANCELED)
        case AttemptOutcome.UNCONFIRMED:
            count = min(unconfirmed + 1, 1000)
            lost = _failed(AttemptOutcome.LOST, failures + 1, max_attempts, retryable=retryable)
            judged = lost if count >= most else same._replace(releases=releases)
            return judged._replace(delay_s=delay_s(count - 1) if count > 1 else 0.0, unconfirmed=count)
    failed = _failed(outcome, failures + 1, max_attempts, retryable=retryable)
    waits = failed.status is Status.PENDING and outcome is not AttemptOutcome.LOST
    return failed._replace(delay_s=delay_s(failures + 1)) if waits else failed


def _failed(outcome: AttemptOutcome, failures: int, max_attempts: int, *, retryable: bool) -> Judgement:
    if retryable and failures < max_attempts:
        return Judgement(status=Status.PENDING, failures=failures, outcome=outcome)
    end = Status.FAILED if outcome is AttemptOutcome.FAILED else Status.TIMED_OUT
    return Judgement(status=end, failures=failures, outcome=outcome)
