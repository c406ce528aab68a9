"""The checker finds each lie that it is there for: without that, no fault found means nothing."""

from dataclasses import replace
from typing import Any

import pytest

from tests.hammer.checking import faults
from tests.hammer.recording import Call, Move

# A job that was claimed, confirmed, given back, claimed by another worker, confirmed and done.
TRUE = [
    Move(1, None, "pending", 0, 0, None, 1.0),
    Move(1, "pending", "in_progress", 1, 0, 7, 2.0),
    Move(1, "in_progress", "in_progress", 1, 1, 7, 3.0),
    Move(1, "in_progress", "pending", 1, 1, 7, 4.0),
    Move(1, "pending", "in_progress", 2, 1, 8, 5.0),
    Move(1, "in_progress", "in_progress", 2, 2, 8, 6.0),
    Move(1, "in_progress", "success", 2, 2, 8, 7.0),
]
CALLS = [
    Call("submit", 1, None, "", None, 0.9, 1.1),
    Call("claim", 1, 1, "", 7, 1.9, 2.1),
    Call("heartbeat", 1, 1, "done", 7, 2.9, 3.1),
    Call("claim", 1, 2, "", 8, 4.9, 5.1),
    Call("finish", 1, 2, "success", 8, 6.9, 7.1),
    Call("finish", 1, 1, "LeaseLost", 7, 6.9, 7.1),
    Call("cancel", 1, None, "too_late", None, 7.9, 8.1),
]


def moved(place: int, **changes: Any) -> list[Move]:
    """The true history, in which one move is another."""
    return [replace(move, **changes) if n == place else move for n, move in enumerate(TRUE)]


def test_the_truth_has_no_fault() -> None:
    assert faults(TRUE, CALLS, {1: "success"}) == []


@pytest.mark.parametrize(
    ("lie", "moves", "calls", "status"),
    [
        ("after its end", [*TRUE, Move(1, "success", "pending", 2, 2, 8, 8.0)], CALLS, "pending"),
        ("with fence 3 after 1", moved(4, fence=3), CALLS, "success"),
        ("with fence 1 after 1", moved(4, fence=1, confirmed=0), CALLS, "success"),
        ("before anybody named it", moved(4, confirmed=2), CALLS, "success"),
        ("and nobody claimed it", moved(3, fence=2), CALLS, "success"),
        ("from worker 8 to 9", moved(5, worker=9), CALLS, "success"),
        ("while nobody had it", [TRUE[0], Move(1, "pending", "success", 0, 0, None, 2.0)], [], "success"),
        ("after a move to in_progress", [*TRUE[:3], *TRUE[4:]], CALLS, "success"),
        ("the table says pending", TRUE, CALLS, "pending"),
        ("the table says None", TRUE, CALLS, None),
        ("is not there", [], CALLS[:1], None),
        ("not its own", TRUE, [Call("claim", 1, 2, "", 7, 4.9, 5.1)], "success"),
        ("not its own", TRUE, [Call("claim", 1, 3, "", 7, 4.9, 5.1)], "success"),
        ("after the claim was over", TRUE, [Call("heartbeat", 1, 1, "done", 7, 4.5, 4.6)], "success"),
        ("was told success", TRUE, [Call("finish", 1, 1, "success", 7, 3.9, 4.1)], "success"),
        ("was refused its finish", TRUE, [Call("finish", 1, 2, "LeaseLost", 8, 6.9, 7.1)], "success"),
        ("too_late before its end", TRUE, [Call("cancel", 1, None, "too_late", None, 5.0, 5.1)], "success"),
        (
            "and ended as success", TRUE,
            [Call("cancel", 1, None, "canceled_while_running", None, 6.0, 6.1)], "success",
        ),
        ("has not ended", TRUE[:4], [Call("cancel", 1, None, "too_late", None, 6.0, 6.1)], "pending"),
        (
            "and was in_progress", [*TRUE[:6], Move(1, "in_progress", "canceled", 2, 2, 8, 7.0)],
            [Call("cancel", 1, None, "canceled_before_retry", None, 6.9, 7.1)], "canceled",
        ),
        (
            "claim 1 had run", [*TRUE[:4], Move(1, "pending", "canceled", 1, 1, 7, 5.0)],
            [Call("cancel", 1, None, "canceled_before_start", None, 4.9, 5.1)], "canceled",
        ),
        (
            "nobody had run it", [TRUE[0], Move(1, "pending", "canceled", 0, 0, None, 5.0)],
            [Call("cancel", 1, None, "canceled_before_retry", None, 4.9, 5.1)], "canceled",
        ),
    ],
)  # fmt: skip
def test_finds_each_lie(lie: str, moves: list[Move], calls: list[Call], status: str | None) -> None:
    found = faults(moves, calls, {} if status is None else {1: status})
    assert any(lie in one for one in found), found
