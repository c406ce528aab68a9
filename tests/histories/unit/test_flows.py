"""The checker finds each lie about jobs that wait, and nothing in what is true of them."""

from dataclasses import replace
from typing import Any

import pytest

from tests.histories.checking import faults
from tests.histories.history import Call, History


def call(what: str, began: float, ended: float | None, job: int | None = 1, /, **more: Any) -> Call:
    facts = {field: more.pop(field) for field in ("fence", "worker", "answer", "outcome") if field in more}
    facts.setdefault("outcome", "unknown" if ended is None else "ok")
    return Call(call=what, began=began, ended=ended, job=job, more=more, **facts)


def suspend(began: float, ended: float | None, fence: int, **wait: Any) -> Call:
    return call("finish", began, ended, fence=fence, worker=7, answer="pending", waits={"1": wait})


AFTER = [{"id": 2, "status": "success"}]
GO, ITS_TIME = {"name": "go", "data": "a"}, {"name": "go", "timed_out": True}
CHILD = call("child", 2, 2.5, fence=1, worker=7, position=0, child=2)
KEPT = call("checkpoint", 2.6, 2.7, fence=1, worker=7, value="one")
WAIT, DONE = suspend(3, 3.5, 1, children=[2]), call("finish", 30, 31, fence=3, worker=7, answer="success")
ITS_CLAIM = call("claim", 4, 4.5, 2, fence=1, worker=8)
ITS_END = call("finish", 5, 6, 2, fence=1, worker=8, answer="success")
AGAIN = call("claim", 7, 8, fence=2, worker=7, after=AFTER, checkpoint="one")
NEWER = call("checkpoint", 8.5, 8.7, fence=2, worker=7, value="two")
HELD, SENT = suspend(9, 10, 2, signal="go", timeout=5.0), call("signal", 11, 12, name="go", data="a", is_new=True)
LAST = call("claim", 13, 14, fence=3, worker=7, signal=GO, after=AFTER, checkpoint="two")
TRUE = [call("submit", 0, 1), call("claim", 1, 1.5, fence=1, worker=7), CHILD, KEPT, WAIT, ITS_CLAIM, ITS_END, AGAIN,
        NEWER, HELD, SENT, LAST, DONE]  # fmt: skip
ONCE_MORE = [*TRUE[:-1], suspend(15, 16, 3, signal="go")]
WOKEN = call("claim", 17, 18, fence=4, worker=7, signal=GO, after=AFTER, checkpoint="two")


def but(old: Call, new: Call) -> list[Call]:
    assert old in TRUE
    return [new if one is old else one for one in TRUE]


CANCELED = [*TRUE[:6], call("cancel", 4.6, 4.8, answer="canceled_while_suspended")]


def test_a_cancel_cancels_the_children_too() -> None:
    assert faults(History(calls=CANCELED, states={1: "canceled", 2: "canceled"})) == []
    assert faults(History(calls=TRUE[:6], states={1: "pending", 2: "canceled"})), "nobody canceled it"
    unheard = replace(CHILD, outcome="unknown", ended=None, more={"position": 0})  # but the table has it
    calls = [*CANCELED[:2], unheard, CANCELED[-1], call("step", 40, 40, position=0, child=2)]
    assert faults(History(calls=calls, states={1: "canceled", 2: "canceled"})) == []


@pytest.mark.parametrize(
    "calls",
    [
        TRUE,
        [*but(CHILD, replace(CHILD, outcome="unknown", ended=None, more={"position": 0})),
         replace(CHILD, began=2.5, ended=2.55)],  # asked again, as the answer was lost
        but(LAST, replace(LAST, more={**LAST.more, "signal": ITS_TIME})),
        [*TRUE, replace(SENT, began=40, ended=41, more={**SENT.more, "is_new": False})],  # the same again
        but(SENT, replace(SENT, began=1.1, ended=1.2)),  # before the wait
        [*TRUE[:9], suspend(8.8, None, 2, signal="go", timeout=5.0), *TRUE[9:11],
         replace(LAST, began=13, ended=13.8, more={**LAST.more, "signal": ITS_TIME}), DONE],  # from the first call on
        but(SENT, replace(SENT, job=None, call="signal by key")),
        but(SENT, replace(SENT, outcome="unknown", ended=None)),
        but(NEWER, replace(NEWER, outcome="unknown", ended=None)),
    ],
)  # fmt: skip
def test_what_is_true_is_accepted(calls: list[Call]) -> None:
    assert faults(History(calls=calls, states={1: "success", 2: "success"})) == []


@pytest.mark.parametrize(
    ("calls", "says"),
    [
        ([*ONCE_MORE, WOKEN], "was given to the waits of claims [2, 3]"),
        (but(AGAIN, replace(AGAIN, began=3.6, ended=4)), "before its child 2 had ended"),
        (but(AGAIN, replace(AGAIN, more={"checkpoint": "one"})), "before its child 2 had ended"),
        ([*TRUE, replace(CHILD, began=2.5, ended=2.55, more={"position": 0, "child": 3})], "the children [2, 3]"),
        ([*TRUE, call("step", 40, 40, position=0, child=3)], "the children [2, 3]"),
        (but(LAST, replace(LAST, more={**LAST.more, "signal": {**ITS_TIME, "data": "a"}})), "whose time was over"),
        (but(LAST, replace(LAST, more={**LAST.more, "signal": None})), "without the signal go"),
        (but(SENT, replace(SENT, began=15, ended=16)), "which nobody had sent"),
        (but(LAST, replace(LAST, more={**LAST.more, "checkpoint": "one"})), "brought one after two was kept"),
        ([*TRUE[:8], replace(NEWER, fence=1), *TRUE[9:]], "in no order can these have happened"),  # of a lost lease
        ([*TRUE[:8], replace(CHILD, began=8.5, ended=8.7, more={"position": 1, "child": 2}), *TRUE[8:]],
         "in no order can these have happened"),
        (but(LAST, replace(LAST, began=11, ended=13, more={**LAST.more, "signal": ITS_TIME})),
         "claim 3 was given as if its time were over, 1.00 s before it was"),
        ([*but(HELD, suspend(9, 10, 2, signal="go"))[:-2], replace(LAST, more={**LAST.more, "signal": ITS_TIME}), DONE],
         "claim 3 was given as if its time were over, and it waited for as long as it takes"),
        ([*TRUE[:9], call("signal", 8.8, 8.9, name="go", data="a"), *TRUE[9:11],
          replace(LAST, more={**LAST.more, "signal": ITS_TIME}), DONE],
         "claim 3 was given as if its time were over, and the signal a had come before it waited"),
        (but(HELD, suspend(9, 10, 2, until_s=20.0)), "before the moment that it waited for"),
        ([*TRUE[:10], call("cancel", 10.2, 10.5, answer="canceled_before_retry"), SENT], "after it was canceled"),
    ],
)  # fmt: skip
def test_a_lie_is_found(calls: list[Call], says: str) -> None:
    assert says in "\n".join(faults(History(calls=calls)))


@pytest.mark.parametrize(
    ("calls", "why"),
    [
        (TRUE[:7], "its children have ended"),
        ([*TRUE[:11], call("read", 12, 13, None)], "its signal has come"),
        ([*TRUE[:10], call("read", 30, 31, None)], "its time is over"),
    ],
)
def test_a_wait_that_is_over_and_was_never_released_is_found(calls: list[Call], why: str) -> None:
    sentences = faults(History(calls=calls, states={1: "pending", 2: "success"}))
    assert [f"job 1: was never released, although {why}"] == [one for one in sentences if "never released" in one]


def test_what_comes_after_a_wait_that_nobody_knows_to_be_taken_may_be_its_answer() -> None:
    """By a key, so claim 2 has the signal of the wait before, and claim 4 that of one whose answer was lost."""
    unheard = suspend(15, None, 3, signal="event")
    event = [call("signal by key", 15, 15.5, None, name="event", data="b")]
    claim = replace(WOKEN, more={**WOKEN.more, "signal": {"name": "event", "data": "b"}})
    calls = [*TRUE[:-1], unheard, *event, claim, call("finish", 30, 31, fence=4, worker=7, answer="success")]
    assert faults(History(calls=calls, states={1: "success", 2: "success"})) == []


def test_two_answers_of_one_wait_are_found() -> None:
    given_back = call("release", 14.5, 15, fence=3, worker=7)
    calls = [*TRUE[:-1], given_back, replace(WOKEN, more={**WOKEN.more, "signal": ITS_TIME})]
    assert "was answered ['its time is over', 'signal a']" in "\n".join(faults(History(calls=calls)))
