"""What becomes of a job whose attempt ended without success."""

import random
from dataclasses import dataclass

from core.backoff import Backoff
from jobs.domain.states import AttemptOutcome, Status

FREE_RELEASES = 3  # in a row: a worker that shuts down gives a job back at once, and so may the next two


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
    """Decide whether a job is retried (DESIGN promises 5 and 6).

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
