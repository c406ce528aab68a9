"""When a worker asks again after a claim that brought nothing."""

import random

import pytest

from jobfarm_client.backoff import Backoff
from jobfarm_worker.claims import AT_ONCE_S, Empties


class Most(random.Random):
    """Dice that always show the most."""

    def uniform(self, a: float, b: float) -> float:
        return b


@pytest.fixture
def empties() -> Empties:
    return Empties(Backoff(rng=Most(), base_s=1.0, cap_s=4.0))


class TestPauses:
    def test_are_none_after_a_message_that_there_is_work(self, empties: Empties) -> None:
        for _ in range(10):  # a socket's claim ends empty as soon as a job arrives; the next one gets it
            assert empties.pause_s(claimed_count=0, took_s=0.01) == 0
            assert empties.pause_s(claimed_count=1, took_s=0.01) == 0

    def test_grow_while_a_farm_answers_at_once_with_nothing(self, empties: Empties) -> None:
        assert [empties.pause_s(claimed_count=0, took_s=0.01) for _ in range(6)] == [0, 1, 2, 4, 4, 4]

    def test_are_none_after_a_claim_that_waited(self, empties: Empties) -> None:
        assert [empties.pause_s(claimed_count=0, took_s=AT_ONCE_S) for _ in range(5)] == [0] * 5

    def test_begin_anew_after_a_job(self, empties: Empties) -> None:
        pauses = [empties.pause_s(claimed_count=found, took_s=0.01) for found in (0, 0, 0, 1, 0, 0)]
        assert pauses == [0, 1, 2, 0, 0, 1]
