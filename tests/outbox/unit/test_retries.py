"""When a message that was not taken is sent again."""

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from outbox.domain import addresses
from tests.looped import looped

RNG = random.Random(1)


def test_the_attempts_go_on_for_three_days() -> None:
    waits = [addresses.wait_s(attempts=n, retry_after_s=None, rng=RNG) for n in range(1, addresses.MOST_ATTEMPTS)]
    assert all(a is not None and b is not None and a < b for a, b in pairwise(waits))
    assert timedelta(hours=72) < timedelta(seconds=sum(filter(None, waits))) < timedelta(hours=84)
    assert addresses.wait_s(attempts=addresses.MOST_ATTEMPTS, retry_after_s=None, rng=RNG) is None


@given(st.integers(1, addresses.MOST_ATTEMPTS - 1), st.floats(0, addresses.LONGEST_RETRY_AFTER_S))
def test_none_comes_sooner_than_the_receiver_requests(attempts: int, least_s: float) -> None:
    wait = addresses.wait_s(attempts=attempts, retry_after_s=least_s, rng=RNG)
    assert wait is not None
    assert wait >= least_s
    assert wait >= addresses.WAITS_S[attempts - 1]


@looped(("value", "seconds"), [("120", 120.0), ("-5", None), ("soon", None), ("", None), ("99999999", 86_400.0)])
def test_a_retry_after_may_be_seconds(value: str, seconds: float | None) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert addresses.Answer(status=503, headers={"retry-after": value}).retry_after_s(now=now) == seconds
    assert addresses.Answer(status=500, headers={"retry-after": value}).retry_after_s(now=now) is None


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("Thu, 01 Jan 2026 00:10:00 GMT", 600.0), ("Wed, 31 Dec 2025 00:00:00 GMT", 0.0),
        ("Thu, 99 Jan 2026 00:10:00 GMT", None),
    ],
)  # fmt: skip
def test_a_retry_after_may_be_a_date(value: str, seconds: float | None) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert addresses.Answer(status=429, headers={"retry-after": value}).retry_after_s(now=now) == seconds
