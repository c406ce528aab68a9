"""The rule by which calls choose their worker keeps its promise in conversations that nobody chose."""

import pytest

from benchmarks import prefix


@pytest.mark.parametrize("sort", prefix.TRAFFIC)
@pytest.mark.parametrize("load", [0.33, 0.67])
def test_prompts_are_found_in_caches_nearly_as_often_as_with_perfect_affinity(sort: str, load: float) -> None:
    shares = {
        rule: prefix.measure(sort, load, rule, calls=2_000, seed=7)[0]
        for rule in (prefix.PERFECT, prefix.OURS, prefix.LEAST_LOADED)
    }
    assert shares[prefix.OURS] >= shares[prefix.PERFECT] - prefix.MOST_LOST
    assert shares[prefix.OURS] > shares[prefix.LEAST_LOADED]


def test_a_worker_that_everybody_wants_does_not_keep_calls_waiting_as_with_perfect_affinity() -> None:
    """In the simulation's own seconds, which are the same in each run."""
    _, ours = prefix.measure("chats", 0.9, prefix.OURS, calls=2_000, seed=7)
    _, perfect = prefix.measure("chats", 0.9, prefix.PERFECT, calls=2_000, seed=7)
    assert ours < perfect
