"""How much may be asked for in a time."""

import pytest

from live.protocol import Bucket


class TestABucket:
    def test_gives_its_capacity_at_once_and_then_its_rate(self) -> None:
        bucket = Bucket(capacity=10, rate=2, now=100)
        assert bucket.take(4, now=100) == 0
        assert bucket.take(6, now=100) == 0
        assert bucket.take(1, now=100) == 0.5
        assert bucket.take(3, now=100) == 2
        assert bucket.take(1, now=102) == 0.5
        assert bucket.take(3, now=103) == 1

    def test_keeps_no_more_than_its_capacity(self) -> None:
        bucket = Bucket(capacity=10, rate=2, now=0)
        assert bucket.take(10, now=0) == 0
        assert bucket.take(11, now=1_000_000) == 0.5

    @pytest.mark.parametrize(("count", "has"), [(3, True), (4, False)])
    def test_says_whether_it_has_so_much(self, count: float, has: bool) -> None:
        bucket = Bucket(capacity=5, rate=1, now=0)
        bucket.take(4, now=0)
        assert bucket.has(count, now=2) is has

    def test_is_full_once_all_came_back(self) -> None:
        bucket = Bucket(capacity=5, rate=1, now=0)
        bucket.take(4, now=0)
        assert not bucket.is_full(now=3)
        assert bucket.is_full(now=4)
