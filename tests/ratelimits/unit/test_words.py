"""What limits are called, and what people read about them."""

import copy
import pickle
from datetime import timedelta

import pytest

from ratelimits import limits
from ratelimits.domain import FixedWindow, TokenBucket
from ratelimits.errors import InvalidName, RateLimited, UnknownLimit, words
from ratelimits.operations import stored_key
from ratelimits.templatetags.limits import described, period, tokens
from tests.looped import looped

HOUR = timedelta(hours=1)


class TestADeclaredLimit:
    def test_is_found_by_its_name(self) -> None:
        assert limits.declare("test/found", TokenBucket(10, HOUR)) == "test/found"
        assert limits.find("test/found") == TokenBucket(10, HOUR)
        assert limits.everything()["test/found"] == TokenBucket(10, HOUR)

    def test_may_be_declared_twice_only_alike(self) -> None:
        limits.declare("test/twice", TokenBucket(10, HOUR))
        limits.declare("test/twice", TokenBucket(10, HOUR))
        with pytest.raises(ValueError, match="declared twice"):
            limits.declare("test/twice", TokenBucket(11, HOUR))

    def test_that_nobody_declared_is_an_error_that_says_what_to_do(self) -> None:
        with pytest.raises(UnknownLimit, match=r"No limit is called 'test/nobody': declare it in an app's limits.py"):
            limits.find("test/nobody")

    @looped("name", ["", " ", " b", "b ", 'a"b', "-a", "a" * 101, "ä", "a\n", None, 7])
    def test_has_a_name_that_headers_can_carry(self, name: str) -> None:
        with pytest.raises(InvalidName):
            limits.declare(name, TokenBucket(10, HOUR))


class TestAKey:
    def test_is_stored_as_it_is_where_it_fits(self) -> None:
        assert [stored_key(key) for key in (None, "user:7", "ä b", "x" * 300)] == ["", "user:7", "ä b", "x" * 300]

    @looped("key", ["", "\x00", "a\x00b", "x" * 301, "\ud800", "a\nb", "\u202euser"])
    def test_that_does_not_fit_is_stored_by_its_hash(self, key: str) -> None:
        stored = stored_key(key)
        assert stored.isprintable()
        assert 65 <= len(stored) <= 300
        assert stored_key(key + "!") != stored

    def test_cannot_be_chosen_so_that_it_is_somebody_elses(self) -> None:
        """What looks like the hash of a long key is hashed itself; and "" is not the key that everybody
        shares."""
        long = "x" * 400
        assert stored_key(stored_key(long)) != stored_key(long)
        assert stored_key("") != stored_key(None)


class TestARefusal:
    def test_says_how_long_to_wait_and_not_whom_it_struck(self) -> None:
        error = RateLimited(name="log-in", key="ada", retry_after=timedelta(seconds=90.5))
        assert error.message == "Too many requests: try again in 91 seconds."
        assert error.numbers == {"limit": "log-in", "retry_after": 90.5, "words": "91 seconds"}
        assert (error.name, error.key, error.code) == ("log-in", "ada", "rate_limited")

    def test_survives_a_copy_and_a_pickle(self) -> None:
        error = RateLimited(name="log-in", key=None, retry_after=timedelta(seconds=1))
        for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
            assert (twin.name, twin.key, twin.retry_after, str(twin)) == ("log-in", None, error.retry_after, str(error))

    @looped(
        ("seconds", "sentence"),
        [(0, "1 second"), (0.2, "1 second"), (1.1, "2 seconds"), (119, "119 seconds"), (120, "2 minutes"),
         (121, "3 minutes"), (7200, "2 hours"), (86400 * 2, "2 days"), (86400 * 400, "400 days")],
    )  # fmt: skip
    def test_rounds_up(self, seconds: float, sentence: str) -> None:
        assert words(timedelta(seconds=seconds)) == sentence


class TestThePage:
    def test_says_what_a_limit_is(self) -> None:
        assert described(TokenBucket(10, HOUR)) == "10 every hour (token bucket)"
        sharded = FixedWindow(0.5, timedelta(minutes=5), capacity=20, shards=4)
        assert described(sharded) == "0.5 every 5 minutes, at most 20 (fixed window, 4 shards)"

    def test_says_periods_as_people_do(self) -> None:
        sentence = [period(ms) for ms in (200, 1000, 1500, 90_000, 60_000, 7_200_000, 86_400_000, 604_800_000)]
        assert sentence == ["200 ms", "second", "1.5 seconds", "90 seconds", "minute", "2 hours", "day", "7 days"]

    def test_says_tokens_shortly(self) -> None:
        assert [tokens(n) for n in (7, 0.25, -3, 1234.5, -0.001, 0)] == ["7", "0.25", "-3", "1,234", "0", "0"]
