"""Waits and runs of a job's attempts."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from jobs.domain import timelines
from jobs.domain.timelines import Current, Span

BEGIN = datetime(2026, 9, 1, 12, tzinfo=UTC)


@dataclass
class Ended:
    """An attempt in the history."""

    number: int
    claimed_at: datetime
    ended_at: datetime


def _at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def _spans(attempts: list[Ended], current: Current, *, now_s: float = 100) -> dict[int, tuple[float, float | None]]:
    spans = timelines.spans(attempts, current, submitted_at=BEGIN, now=_at(now_s))
    return {number: (span.waited_s, span.ran_s) for number, span in spans.items()}


class TestSpans:
    def test_of_a_job_that_succeeded_at_once(self) -> None:
        current = Current(number=1, claimed_at=_at(10), ended_at=_at(40), is_waiting=False)
        [span] = timelines.spans([], current, submitted_at=BEGIN, now=_at(1000)).values()
        assert (span.waited_s, span.ran_s) == (10, 30)
        assert [(bar.kind, bar.begin, bar.length) for bar in span.bars] == [("wait", 0, 250), ("run", 250, 750)]

    def test_of_one_that_failed_twice_and_runs(self) -> None:
        attempts = [Ended(2, _at(30), _at(50)), Ended(1, _at(10), _at(20))]
        current = Current(number=3, claimed_at=_at(90), ended_at=None, is_waiting=False)
        assert _spans(attempts, current) == {1: (10, 10), 2: (10, 20), 3: (40, 10)}

    def test_of_one_that_waits_for_its_next_attempt(self) -> None:
        attempts = [Ended(1, _at(10), _at(20))]
        current = Current(number=1, claimed_at=_at(10), ended_at=None, is_waiting=True)
        assert _spans(attempts, current) == {1: (10, 10), 2: (80, None)}

    def test_of_one_that_nobody_has_taken(self) -> None:
        current = Current(number=0, claimed_at=None, ended_at=None, is_waiting=True)
        assert _spans([], current) == {1: (100, None)}

    def test_of_one_that_was_canceled_while_it_waited_again(self) -> None:
        attempts = [Ended(1, _at(10), _at(20))]
        current = Current(number=1, claimed_at=_at(10), ended_at=_at(60), is_waiting=False)
        assert _spans(attempts, current) == {1: (10, 10)}

    def test_do_not_guess_a_wait_before_the_oldest_attempt_they_know(self) -> None:
        attempts = [Ended(7, _at(60), _at(70))]
        current = Current(number=8, claimed_at=_at(80), ended_at=_at(90), is_waiting=False)
        assert _spans(attempts, current) == {7: (0, 10), 8: (10, 10)}

    def test_that_end_before_they_begin_are_nothing_and_no_error(self) -> None:
        current = Current(number=1, claimed_at=_at(-5), ended_at=_at(-10), is_waiting=False)
        [span] = timelines.spans([], current, submitted_at=BEGIN, now=BEGIN).values()
        assert isinstance(span, Span)
        assert (span.waited_s, span.ran_s) == (0, 0)
