"""The checker finds each lie about deliveries and events, and nothing in what is true of them."""

from dataclasses import replace

import pytest

from tests.histories.checking import faults
from tests.histories.history import Call, History


def delivered(call: str, at: float, name: str = "a", outcome: str = "ok") -> Call:
    return Call(call=call, outcome=outcome, began=at, ended=at + 0.1, more={"delivery": name})


def event(call: str, at: float, name: str, subject: str = "job/1") -> Call:
    return Call(call=call, began=at, ended=at + 0.1, more={"event": name, "subject": subject})


SENT, DONE = delivered("deliver", 1), delivered("process", 2)
FIRST, SECOND, OTHER = event("emit", 1, "x"), event("emit", 2, "y"), event("emit", 2, "z", "job/2")
CAME = [event("arrive", 3, "x"), event("arrive", 5, "y"), event("arrive", 2.5, "z", "job/2")]
TRUE = [SENT, DONE, FIRST, SECOND, OTHER, *CAME]


@pytest.mark.parametrize(
    "more",
    [
        [],
        [delivered("deliver", 3)],  # again, since its answer was lost
        [delivered("deliver", 3, "b", "unknown")],
        [delivered("deliver", 3, "b", "failed")],
        [event("arrive", 9, "x")],  # again
    ],
)
def test_what_is_true_is_accepted(more: list[Call]) -> None:
    assert faults(History(calls=[*TRUE, *more], states={})) == []


@pytest.mark.parametrize(
    ("calls", "says"),
    [
        ([*TRUE, replace(DONE, began=3, ended=4)], "was processed 2 times"),
        ([*TRUE, delivered("process", 3, "b")], "nobody sent it"),
        ([*TRUE, delivered("deliver", 9, "b"), delivered("process", 8, "b")], "before it was sent"),
        ([*TRUE, delivered("deliver", 3, "b")], "b was answered yes, and never processed"),
        ([*TRUE, FIRST], "x was written 2 times"),
        ([*TRUE, event("arrive", 0.5, "x")], "x arrived before it was written"),
        (TRUE[:-2], "y never arrived"),
        ([*TRUE[:-3], event("arrive", 6, "x"), *CAME[1:]], "of job/1 the event y arrived before x"),
        ([*TRUE, event("arrive", 9, "w")], "w arrived, and is none of the farm's"),
    ],
)
def test_a_lie_is_found(calls: list[Call], says: str) -> None:
    assert says in "\n".join(faults(History(calls=calls, states={})))
