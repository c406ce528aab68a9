"""What becomes of a job whose attempt ended, and how long it waits."""

import random
from functools import partial
from typing import Any

import pytest

from core.backoff import LONGEST_S, Backoff
from jobs.domain.kinds import Kind
from jobs.domain.leases import Judgement, judge
from jobs.domain.states import AttemptOutcome, Status
from tests.looped import looped


def _judge(outcome: AttemptOutcome, **given: Any) -> Judgement:
    usual: dict[str, Any] = {"failures": 0, "max_attempts": 3, "retryable": True, "releases": 0, "unconfirmed": 0}
    delay_s = partial(Backoff(jitter=0).delay_s, rng=random.Random(1))
    return judge(outcome, **{**usual, **given}, delay_s=delay_s, most=5)


def _then(**fields: Any) -> dict[str, Any]:
    """What a judgement says; where it does not say as what the attempt counts: as what it was."""
    return fields


class TestBackoff:
    @looped(("failures", "delay_s"), [(1, 2), (2, 6), (3, 18), (4, 50), (64, 50), (65, 50), (10_000, 50)])
    def test_grows_by_its_base_up_to_its_cap(self, failures: int, delay_s: float) -> None:
        backoff = Backoff(first_s=2, base=3, cap_s=50, jitter=0)
        assert backoff.delay_s(failures, rng=random.Random(1)) == delay_s

    def test_with_jitter_stays_within_its_share_and_under_the_cap(self) -> None:
        rng = random.Random(7)
        delays = [Backoff(first_s=100, cap_s=130, jitter=0.5).delay_s(1, rng=rng) for _ in range(2000)]
        assert 50 <= min(delays) < 52
        assert max(delays) == 130
        assert 60 < sorted(delays)[400] < 80

    def test_with_the_largest_numbers_is_the_cap(self) -> None:
        backoff = Backoff(first_s=86400, base=1000, cap_s=86400, jitter=1)
        assert 0 <= backoff.delay_s(1000, rng=random.Random(1)) <= 86400

    def test_of_nothing_is_nothing(self) -> None:
        assert Backoff(first_s=0).delay_s(5, rng=random.Random(1)) == 0

    @looped(
        "wrong",
        [{"first_s": -1}, {"base": 0.5}, {"cap_s": -1}, {"jitter": -0.1}, {"jitter": 1.1},
         {"first_s": float("nan")}, {"base": float("inf")}, {"base": float("nan")}, {"cap_s": float("nan")},
         {"jitter": float("nan")}],
        ids=str,
    )  # fmt: skip
    def test_that_makes_no_sense_is_refused(self, wrong: dict[str, float]) -> None:
        with pytest.raises(ValueError, match="a backoff needs"):
            Backoff(**wrong)

    @pytest.mark.parametrize(
        "wrong", [{"base": 1001}, {"first_s": float("inf")}, {"cap_s": float("inf")}, {"cap_s": LONGEST_S + 1}], ids=str
    )
    def test_of_a_kind_has_bounds_that_its_table_has_too(self, wrong: dict[str, float]) -> None:
        with pytest.raises(ValueError, match="a kind's backoff"):
            Kind(name="summary", backoff=Backoff(**wrong))

    def test_with_a_pair_waits_between_these_two_shares(self) -> None:
        rng = random.Random(7)
        quarter = Backoff(first_s=100, cap_s=400, jitter=(0.25, 1))
        delays = [[quarter.delay_s(failures, rng=rng) for _ in range(500)] for failures in (1, 9)]
        assert 25 <= min(delays[0]) < 27
        assert 98 < max(delays[0]) <= 100
        assert 100 <= min(delays[1]) < 108
        assert 392 < max(delays[1]) <= 400

    def test_of_a_very_large_base_is_the_cap(self) -> None:
        assert Backoff(base=LONGEST_S, jitter=0).delay_s(1000, rng=random.Random(1)) == 3600


class TestJudging:
    @looped(
        ("outcome", "given", "judgement"),
        [
            (AttemptOutcome.FAILED, {}, _then(status=Status.PENDING, failures=1, delay_s=1)),
            (AttemptOutcome.FAILED, {"failures": 1}, _then(status=Status.PENDING, failures=2, delay_s=2)),
            (AttemptOutcome.FAILED, {"failures": 2}, _then(status=Status.FAILED, failures=3)),
            (AttemptOutcome.FAILED, {"retryable": False}, _then(status=Status.FAILED, failures=1)),
            (AttemptOutcome.FAILED, {"max_attempts": 1}, _then(status=Status.FAILED, failures=1)),
            (AttemptOutcome.LOST, {}, _then(status=Status.PENDING, failures=1)),
            (AttemptOutcome.LOST, {"retryable": False}, _then(status=Status.TIMED_OUT, failures=1)),
            (AttemptOutcome.LOST, {"failures": 2}, _then(status=Status.TIMED_OUT, failures=3)),
            (AttemptOutcome.TIMED_OUT, {}, _then(status=Status.PENDING, failures=1, delay_s=1)),
            (AttemptOutcome.TIMED_OUT, {"failures": 2}, _then(status=Status.TIMED_OUT, failures=3)),
            (AttemptOutcome.RELEASED, {"failures": 2}, _then(status=Status.PENDING, failures=2, releases=1)),
            (AttemptOutcome.RELEASED, {"releases": 2}, _then(status=Status.PENDING, failures=0, releases=3)),
            (AttemptOutcome.RELEASED, {"releases": 3}, _then(status=Status.PENDING, failures=0, delay_s=1, releases=4)),
            (AttemptOutcome.RELEASED, {"releases": 5}, _then(status=Status.PENDING, failures=0, delay_s=4, releases=6)),
            (
                AttemptOutcome.UNCONFIRMED,
                {"failures": 2, "max_attempts": 1, "retryable": False, "releases": 2},
                _then(status=Status.PENDING, failures=2, releases=2, unconfirmed=1),
            ),
            (
                AttemptOutcome.UNCONFIRMED,
                {"unconfirmed": 3, "retryable": False},
                _then(status=Status.PENDING, failures=0, delay_s=4, unconfirmed=4),
            ),
            (
                AttemptOutcome.UNCONFIRMED,
                {"unconfirmed": 4},
                _then(status=Status.PENDING, failures=1, delay_s=8, unconfirmed=5, outcome=AttemptOutcome.LOST),
            ),
            (
                AttemptOutcome.UNCONFIRMED,
                {"unconfirmed": 5, "failures": 2},
                _then(status=Status.TIMED_OUT, failures=3, delay_s=16, unconfirmed=6, outcome=AttemptOutcome.LOST),
            ),
            (AttemptOutcome.CANCELED, {"failures": 2}, _then(status=Status.CANCELED, failures=2)),
        ],
    )
    def test_decides_where_it_goes(
        self, outcome: AttemptOutcome, given: dict[str, Any], judgement: dict[str, Any]
    ) -> None:
        assert _judge(outcome, **given) == Judgement(**{"outcome": outcome, **judgement})
