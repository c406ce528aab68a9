"""Lies about fair shares, and what is right though it looks like one."""

import pytest

from tests.histories import shares
from tests.histories.history import Call, History


def submit(job: int, at: float, share: str, outcome: str = "ok") -> Call:
    more = {"fair": "q", "share": share}
    return Call(call="submit", job=job, began=at, ended=at + 0.5, outcome=outcome, more=more)


def claim(job: int | None, began: float, ended: float | None = None, fence: int = 1, worker: int = 1) -> Call:
    outcome = "ok" if job else "unknown"
    return Call(
        call="claim", job=job, began=began, ended=ended or began + 0.5, fence=fence, worker=worker, outcome=outcome
    )


def found(*calls: Call) -> list[str]:
    return [*shares.faults(History(calls=[*calls]))]


MANY = [submit(job, 0, "ada") for job in range(1, 7)]
BOB = submit(9, 2, "bob")


@pytest.mark.parametrize(
    ("lie", "calls"),
    [
        ("by one claim after another", [claim(1, 3), claim(2, 4), claim(3, 5), claim(9, 6)]),
        ("by one claim of three", [claim(1, 3, 4), claim(2, 3, 4), claim(3, 3, 4), claim(9, 4.5)]),
        ("by several workers", [claim(1, 3), claim(2, 3, worker=2), claim(3, 3, worker=3), claim(9, 6, worker=4)]),
        ("by who heard all answers", [claim(1, 3), claim(2, 4), claim(3, 5), claim(None, 3, worker=2), claim(9, 6)]),
        (
            "for its second job too",
            [claim(1, 3), claim(2, 4), claim(3, 5), claim(8, 6), claim(9, 7), submit(8, 2.6, "bob")],
        ),
    ],
)
def test_that_a_new_share_was_passed_over_is_found(lie: str, calls: list[Call]) -> None:
    assert found(*MANY, BOB, *calls) == [
        "queue q: ada got the jobs [1, 2, 3] from 2.500 to 6.000, and bob none".replace(
            "6.000", "4.500" if "of three" in lie else "6.000"
        )
    ], lie


@pytest.mark.parametrize(
    ("truth", "calls"),
    [
        ("one whose turn it was, and a tie", [claim(1, 3), claim(2, 4), claim(9, 5), claim(3, 6)]),
        ("claims that waited since before it came", [claim(1, 1, 3), claim(2, 1, 3), claim(3, 1, 3), claim(9, 4)]),
        ("claims beside its own", [claim(1, 3, 9), claim(2, 3, 9), claim(3, 3, 9), claim(9, 4, 5)]),
        ("an answer given once more", [claim(None, 1), claim(1, 3), claim(2, 3), claim(3, 3), claim(9, 4)]),
        ("a claim that nobody heard of", [claim(1, 3), claim(2, 4), claim(3, 5), claim(9, 6, fence=2)]),
        (
            "not new: one may have come before",
            [submit(8, 1, "bob", "unknown"), claim(1, 3), claim(2, 4), claim(3, 5), claim(9, 6)],
        ),
        ("one that never began", [claim(1, 3), claim(2, 4), claim(3, 5)]),
    ],
)
def test_what_can_be_is_accepted(truth: str, calls: list[Call]) -> None:
    assert found(*MANY, BOB, *calls) == [], truth
