"""Every unsharded vector on the Python algebra."""

import pytest

from ratelimits.domain import State
from ratelimits.errors import CountExceedsLimit
from tests.looped import looped
from tests.ratelimits.unit.undivided import Decision, evaluate
from tests.ratelimits.unit.vectors import Sequence, Step, close, sequences

SEQUENCES = [pytest.param(each, id=f"{each.group}-{each.id}") for each in sequences(sharded=False)]


def test_there_are_all_of_them() -> None:
    assert len(SEQUENCES) == 222
    assert sum(len(each.steps) for each in sequences(sharded=False)) == 5460


def decide(step: Step, state: State | None) -> Decision | None:
    """The algebra's answer; None for a count that can never be granted."""
    try:
        return evaluate(step.config, state, now=step.now, count=step.count, reserve=step.reserve, offset=step.offset)
    except CountExceedsLimit:
        return None


def same(decision: Decision | None, expect: dict[str, object]) -> bool:
    """Whether the answer is the vector's."""
    if decision is None or "error" in expect:
        return decision is None and "error" in expect
    return decision.ok is expect["ok"] and close(decision.retry_after, expect["retryAfter"])  # type: ignore[arg-type]


def stored(state: State | None, expect: dict[str, object]) -> bool:
    """Whether what is stored is the vector's."""
    if state is None:
        return expect["value"] is None and expect["ts"] is None
    return close(state.value, expect["value"]) and state.ts == expect["ts"]  # type: ignore[arg-type]


@looped("sequence", SEQUENCES)
def test_answers_every_step_as_the_vectors_do(sequence: Sequence) -> None:
    states: dict[str, State | None] = {}
    for step in sequence.steps:
        state = states.get(step.key)
        if step.op == "reset":
            states[step.key] = None
        else:
            decision = decide(step, state)
            assert same(decision, step.expect), (step, state, decision)
            if decision is not None and step.op == "limit":
                states[step.key] = decision.state
        assert stored(states.get(step.key), step.expect), (step, states.get(step.key))
