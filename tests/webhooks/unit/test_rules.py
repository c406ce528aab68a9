"""Retries, states and filters: rules that need no database."""

import random
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, strategies as st

from tests.looped import looped
from webhooks.domain.deliveries import Filter, Status, is_replayable, next_wait
from webhooks.operations import maintenance

MINUTE = timedelta(minutes=1)


def _wait(after: int, seed: int, *, attempts: int = 5) -> timedelta | None:
    return next_wait(after=after, attempts=attempts, first_s=60.0, rng=random.Random(seed))


class TestRetry:
    @given(st.integers(1, 4), st.integers())
    def test_waits_one_four_sixteen_and_sixty_minutes_or_up_to_a_tenth_less(self, after: int, seed: int) -> None:
        wait, most = _wait(after, seed), (MINUTE, 4 * MINUTE, 16 * MINUTE, 60 * MINUTE)[after - 1]
        assert wait is not None
        assert 0.9 * most <= wait <= most

    def test_waits_no_more_after_the_last(self) -> None:
        assert _wait(5, 1) is None

    def test_does_not_come_in_step_at_the_cap(self) -> None:
        assert len({_wait(4, seed) for seed in range(50)}) == 50

    def test_never_passes_the_hour_however_many_attempts_are_set(self) -> None:
        waits = [_wait(n, n, attempts=100) for n in range(1, 100)]
        assert all(wait is not None and wait <= 60 * MINUTE for wait in waits)


class TestStates:
    @looped("status", Status)
    def test_are_replayable_but_for_what_waits_and_what_was_rejected_on_arrival(self, status: Status) -> None:
        assert is_replayable(status, tries=1) == (status is not Status.RECEIVED)
        assert is_replayable(status, tries=0) == (status not in {Status.RECEIVED, Status.REJECTED})


class TestFilter:
    @given(
        st.builds(
            Filter,
            source=st.sampled_from(["", "github"]),
            event_type=st.text(max_size=20),
            statuses=st.lists(st.sampled_from(Status), unique=True).map(tuple),
            received_from=st.none() | st.datetimes(timezones=st.just(UTC)),
            received_to=st.none() | st.datetimes(timezones=st.just(UTC)),
            text=st.text(max_size=20),
        )
    )
    def test_is_the_same_after_it_was_scheduled(self, wanted: Filter) -> None:
        assert Filter.of_json(wanted.as_json()) == wanted

    def test_is_told_in_words(self) -> None:
        assert Filter().sentence() == "everything"
        sentence = Filter(source="github", statuses=(Status.DEAD, Status.FAILED)).sentence()
        assert sentence == "source github, status dead or failed"


class TestCatalog:
    def test_reads_each_model_once(self) -> None:
        document = {
            "data": [{"id": "a", "owned_by": "o", "created": 1700000000}, {"id": "a"}, {"id": "b"}, {"id": 3}, 7]
        }
        made_at = datetime.fromtimestamp(1700000000, UTC)
        assert maintenance.read(document) == [("a", "o", made_at), ("b", "", None)]

    @looped("document", [None, [], {}, {"data": {}}, "x"])
    def test_refuses_what_is_no_list_of_models(self, document: object) -> None:
        with pytest.raises(ValueError, match="no list"):
            maintenance.read(document)

    @looped("created", [True, -1, 10**20, "1", None, 1.5])
    def test_takes_no_moment_that_is_none(self, created: object) -> None:
        [(_, _, made_at)] = maintenance.read({"data": [{"id": "a", "created": created}]})
        assert made_at is None
