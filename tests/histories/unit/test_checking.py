"""The checker finds each lie that it is there for, and nothing in what is true: without that no fault means nothing."""

from dataclasses import replace
from typing import Any

import pytest

from tests.histories.checking import faults
from tests.histories.history import Bound, Call, History, Move


def call(name: str, began: float, ended: float | None, job: int | None = 1, **more: Any) -> Call:
    """One that was answered, unless it has no end."""
    more.setdefault("outcome", "unknown" if ended is None else "ok")
    return Call(call=name, began=began, ended=ended, job=job, **more)


def lost(name: str, began: float, ended: float, fence: int, worker: int) -> Call:
    return call(name, began, ended, fence=fence, worker=worker, outcome="failed", answer="lease_lost")


# A job that was claimed, lost, claimed by another worker, and done while the first one came back.
CLAIM, AGAIN = call("claim", 1, 2, fence=1, worker=7), call("claim", 6, 7, fence=2, worker=8)
DONE = call("finish", 8, 9, fence=2, worker=8, answer="success")
FAILED = call("finish", 4, 5, fence=1, worker=7, answer="pending")
LATE = lost("finish", 7.5, 9.5, 1, 7)
TRUE = [call("submit", 0, 1), CLAIM, call("report", 3, 4, fence=1, worker=7), AGAIN, LATE, DONE]
BEFORE = TRUE[:2]


def cancel(began: float, ended: float, verdict: str, **more: Any) -> Call:
    return call("cancel", began, ended, answer=verdict, more=more)


def of(calls: list[Call], **facts: Any) -> list[str]:
    """What the checker says of these calls."""
    return faults(History(calls=calls, **facts))


class TestWhatIsTrue:
    @pytest.mark.parametrize(
        "calls",
        [
            TRUE,
            [*TRUE, cancel(8.5, 10, "too_late", status="success")],
            [*TRUE, call("finish", 10, 11, fence=2, worker=8, answer="success")],  # the same again
            [*TRUE[:3], cancel(3.5, 3.8, "canceled_while_running"), lost("report", 4, 5, 1, 7)],
            [TRUE[0], cancel(0.5, 2, "canceled_before_start")],  # before its submit was answered
            [TRUE[0], CLAIM, call("claim", 2, 3, fence=1, worker=7)],  # the same call again: its answer was lost
            [*BEFORE, call("finish", 3, None, fence=1, worker=7), cancel(4, 5, "too_late")],  # an unknown finish
            [*BEFORE, call("finish", 3, None, fence=1, worker=7), cancel(4, 5, "canceled_while_running")],
            [TRUE[0], call("claim", 1, None, None, worker=7), AGAIN, DONE],  # claim 1 was answered to nobody
            [*TRUE, call("release", 10, 11, fence=1, worker=7, outcome="failed", answer="server_busy")],
            [*BEFORE, call("release", 3, 4, fence=1, worker=7), call("release", 5, 6, fence=1, worker=7), AGAIN, DONE],
            [*BEFORE, call("release", 3, 4, fence=1, worker=7), lost("finish", 5, 6, 1, 7), AGAIN, DONE],
            [*BEFORE, call("withdraw", 3, 4, fence=1, worker=7, answer="withdrawn"), AGAIN, DONE],
            [*TRUE[:3], call("withdraw", 5, 6, fence=1, worker=7, answer="kept")],
            [*TRUE[:3], FAILED, cancel(5, 6, "canceled_before_retry")],
            [call("submit", 0, None, None), replace(CLAIM, job=5)],  # a job whose submit was answered to nobody
        ],
    )
    def test_is_accepted(self, calls: list[Call]) -> None:
        assert of(calls) == []

    def test_is_accepted_with_a_state_that_the_last_call_explains_whose_answer_nobody_heard(self) -> None:
        assert of([TRUE[0], call("cancel", 3, None)], states={1: "canceled"}) == []

    def test_is_accepted_with_the_state_at_the_end(self) -> None:
        assert of(TRUE, states={1: "success"}) == []


class TestLiesAboutAJob:
    @pytest.mark.parametrize(
        ("calls", "states"),
        [
            ([*TRUE[:4], call("report", 7.5, 8, fence=1, worker=7)], None),  # accepted after a newer claim
            ([*TRUE[:4], call("finish", 7.5, 8, fence=1, worker=7, answer="success")], None),
            ([*TRUE, call("report", 9.5, 10, fence=2, worker=8)], None),  # after its end
            ([*TRUE, call("claim", 10, 11, fence=3, worker=7)], None),
            ([TRUE[0], AGAIN, replace(CLAIM, began=8, ended=9)], None),  # fences go back
            ([TRUE[0], AGAIN, DONE], None),  # claim 2 without a claim 1
            ([*TRUE[:4], replace(AGAIN, worker=7)], None),  # one claim, two workers
            ([call("submit", 1.5, 2.5), replace(CLAIM, began=0, ended=1)], None),  # claimed before it was submitted
            ([*TRUE, call("finish", 10, 11, fence=2, worker=8, answer="failed")], None),  # another answer to a repeat
            ([*BEFORE, call("report", 2.5, 3, fence=1, worker=7), replace(CLAIM, began=3.5, ended=4)], None),
            ([*BEFORE, lost("report", 2.5, 3, 1, 7), call("report", 4, 5, fence=1, worker=7)], None),  # lost, and not
            ([*TRUE, cancel(10, 11, "canceled_while_running")], None),
            ([*TRUE, cancel(10, 11, "too_late", status="failed")], None),
            ([TRUE[0], cancel(2, 3, "too_late", status="success")], None),
            ([*TRUE[:3], cancel(5, 6, "canceled_before_start")], None),  # somebody had run it
            ([TRUE[0], cancel(5, 6, "canceled_before_retry")], None),  # nobody had
            ([TRUE[0], cancel(1, 2, "canceled_before_start"), replace(CLAIM, began=3, ended=4)], None),
            ([*BEFORE, cancel(3, 4, "canceled_while_running"), call("report", 5, 6, fence=1, worker=7)], None),
            ([*BEFORE, call("release", 3, 3.5, fence=1, worker=7), FAILED], None),
            ([*TRUE[:3], call("withdraw", 5, 6, fence=1, worker=7, answer="withdrawn")], None),  # one that had begun
            (TRUE, {1: "canceled"}),
            (TRUE, {1: "pending"}),
            (TRUE, {}),  # gone
            ([*BEFORE, cancel(3, 4, "canceled_while_running")], {1: "success"}),
            (TRUE, {1: "success", 2: "pending"}),  # nobody submitted 2
        ],
    )  # fmt: skip
    def test_are_found(self, calls: list[Call], states: dict[int, str] | None) -> None:
        found = of(calls, states=states)
        assert len(found) == 1, found

    def test_are_told_by_the_few_calls_that_contradict_each_other(self) -> None:
        lie = call("report", 10, 11, fence=1, worker=7)
        [fault] = of([*TRUE, lie])
        assert fault == (
            "job 1: in no order can these have happened: finish of claim 2 by worker 8 was answered success (8.000 to"
            " 9.000); report of claim 1 by worker 7 was answered ok (10.000 to 11.000)"
        )


class TestLiesAboutWhatIsHeld:
    JOBS = [
        step for n in (1, 2, 3) for step in (
            call("submit", 0, 0.5, n), call("claim", n, n + 0.5, n, fence=1, worker=n),
            call("report", n + 3, n + 3.5, n, fence=1, worker=n))
    ]  # fmt: skip
    WITHIN = {n: ["queue two"] for n in (1, 2, 3)}

    def test_three_under_a_ceiling_of_two_are_found(self) -> None:
        [fault] = of(self.JOBS, within=self.WITHIN, bounds=[Bound(name="queue two", most=2)])
        assert fault.startswith("queue two holds 2, and 3 were held at 3.500: job 1 by claim 1, job 2"), fault

    def test_three_under_a_ceiling_of_three_or_one_that_was_lifted_before_are_right(self) -> None:
        for bound in (Bound(name="queue two", most=3), Bound(name="queue two", most=2, until=3.0)):
            assert of(self.JOBS, within=self.WITHIN, bounds=[bound]) == []

    def test_a_finish_that_is_repeated_does_not_hold_until_then(self) -> None:
        lease: dict[str, Any] = {"fence": 1, "answer": "success"}
        ended = [call("finish", n + 0.6, n + 0.7 if n > 1 else None, n, worker=n, **lease) for n in (1, 2, 3)]
        again = call("finish", 8, 9, 1, fence=1, worker=1, answer="success")
        calls = [step for step in self.JOBS if step.call != "report"]
        assert of([*calls, *ended, again], within=self.WITHIN, bounds=[Bound(name="queue two", most=1)]) == []

    def test_more_than_a_limit_holds_is_found(self) -> None:
        limit = Bound(name="calls", most=2, rate=1)
        right = [call("take", t, t + 0.1, None, more={"limit": "calls"}) for t in (0, 0, 0.9, 2, 3)]
        assert of(right, bounds=[limit]) == []
        [fault] = of([*right, call("take", 1, 1.1, None, more={"limit": "calls"})], bounds=[limit])
        assert "calls granted 4 in 1.100 s" in fault

    def test_two_living_under_one_unique_key_are_found(self) -> None:
        twins = [call("submit", n, n + 0.5, n, more={"unique": "ada k"}) for n in (1, 2)]
        assert of(twins) == []
        [fault] = of([*twins, call("report", 4, 5, 1, fence=1, worker=7), call("claim", 3, 4, 1, fence=1, worker=7)])
        assert "unique key ada k had two jobs" in fault

    def test_two_answers_to_one_idempotency_key_are_found(self) -> None:
        [fault] = of([call("submit", n, n + 0.5, n, more={"idempotency": "k"}) for n in (1, 2)])
        assert fault == "the idempotency key k was answered with the jobs [1, 2]"


def txn(name: str, *, reads: dict[str, list[int]], appends: dict[str, int], outcome: str = "ok") -> Call:
    more = {"id": name, "reads": list(reads.items()), "appends": list(appends.items())}
    return Call(call="mutation", outcome=outcome, ended=1.0, more=more)


class TestLiesAboutMutations:
    @pytest.mark.parametrize(
        ("lie", "calls", "lists"),
        [
            ("", [txn("a", reads={"x": []}, appends={"x": 1}), txn("b", reads={"x": [1]}, appends={"y": 2})],
             {"x": [1], "y": [2]}),
            ("", [txn("a", reads={}, appends={"x": 1}, outcome="unknown")], {"x": []}),
            ("", [txn("a", reads={}, appends={"x": 1}, outcome="unknown")], {"x": [1]}),
            ("G0: ", [txn("a", reads={}, appends={"x": 1, "y": 3}), txn("b", reads={}, appends={"x": 2, "y": 4})],
             {"x": [1, 2], "y": [4, 3]}),
            ("G1a: ", [txn("a", reads={}, appends={"x": 1}, outcome="failed"), txn("b", reads={"x": [1]}, appends={})],
             None),
            ("G1b: ", [Call(call="mutation", ended=1.0, more={"id": "a", "appends": [["x", 1], ["x", 2]]}),
                       txn("b", reads={"x": [1]}, appends={})], {"x": [1, 2]}),
            ("G1c: ", [txn("a", reads={"y": [2]}, appends={"x": 1}), txn("b", reads={"x": [1]}, appends={"y": 2})],
             {"x": [1], "y": [2]}),
            ("G2: a read before the append of b", [
                txn("a", reads={"x": []}, appends={"y": 1}), txn("b", reads={"y": []}, appends={"x": 2})],
             {"x": [2], "y": [1]}),
            ("no beginning of the other", [txn("a", reads={"x": [2, 1]}, appends={"x": 1}),
                                           txn("b", reads={}, appends={"x": 2})], {"x": [1, 2]}),
            ("with an entry twice", [txn("a", reads={}, appends={"x": 1})], {"x": [1, 1]}),
            ("which nobody appended", [], {"x": [1]}),
            ("has not its 1", [txn("a", reads={}, appends={"x": 1})], {"x": []}),
        ],
    )  # fmt: skip
    def test_are_found(self, lie: str, calls: list[Call], lists: dict[str, list[int]] | None) -> None:
        found = of(calls, lists=lists)
        assert any(lie in fault for fault in found) if lie else found == [], found


# A job that was claimed, confirmed, given back, claimed by another worker, confirmed and done.
MOVES = [
    Move(1, None, "pending", 0, 0, None, 1.0),
    Move(1, "pending", "in_progress", 1, 0, 7, 2.0),
    Move(1, "in_progress", "in_progress", 1, 1, 7, 3.0),
    Move(1, "in_progress", "pending", 1, 1, 7, 4.0),
    Move(1, "pending", "in_progress", 2, 1, 8, 5.0),
    Move(1, "in_progress", "in_progress", 2, 2, 8, 6.0),
    Move(1, "in_progress", "success", 2, 2, 8, 7.0),
]
CALLS = [
    call("submit", 0.9, 1.1),
    call("claim", 1.9, 2.1, fence=1, worker=7),
    call("report", 2.9, 3.1, fence=1, worker=7),
    call("claim", 4.9, 5.1, fence=2, worker=8),
    call("finish", 6.9, 7.1, fence=2, worker=8, answer="success"),
    lost("finish", 6.9, 7.1, 1, 7),
    cancel(7.9, 8.1, "too_late"),
]


def moved(place: int, **changes: Any) -> list[Move]:
    """The true moves, in which one is another."""
    return [replace(move, **changes) if n == place else move for n, move in enumerate(MOVES)]


def test_true_moves_have_no_fault() -> None:
    assert of(CALLS, moves=MOVES, states={1: "success"}) == []


@pytest.mark.parametrize(
    ("lie", "moves", "calls", "status"),
    [
        ("after its end", [*MOVES, Move(1, "success", "pending", 2, 2, 8, 8.0)], CALLS, "pending"),
        ("with fence 3 after 1", moved(4, fence=3), CALLS, "success"),
        ("with fence 1 after 1", moved(4, fence=1, confirmed=0), CALLS, "success"),
        ("before anybody named it", moved(4, confirmed=2), CALLS, "success"),
        ("and nobody claimed it", moved(3, fence=2), CALLS, "success"),
        ("from worker 8 to 9", moved(5, worker=9), CALLS, "success"),
        ("while nobody had it", [MOVES[0], Move(1, "pending", "success", 0, 0, None, 2.0)], [], "success"),
        ("after a move to in_progress", [*MOVES[:3], *MOVES[4:]], CALLS, "success"),
        ("the table says pending", MOVES, CALLS, "pending"),
        ("the table says None", MOVES, CALLS, None),
        ("is not there", [], CALLS[:1], None),
        ("not its own", MOVES, [call("claim", 4.9, 5.1, fence=2, worker=7)], "success"),
        ("not its own", MOVES, [call("claim", 4.9, 5.1, fence=3, worker=7)], "success"),
        ("after the claim was over", MOVES, [call("report", 4.5, 4.6, fence=1, worker=7)], "success"),
        ("was answered success", MOVES, [call("finish", 3.9, 4.1, fence=1, worker=7, answer="success")], "success"),
        ("was refused its finish", MOVES, [lost("finish", 6.9, 7.1, 2, 8)], "success"),
        ("too_late before its end", MOVES, [cancel(5.0, 5.1, "too_late")], "success"),
        ("and ended as success", MOVES, [cancel(6.0, 6.1, "canceled_while_running")], "success"),
        ("has not ended", MOVES[:4], [cancel(6.0, 6.1, "too_late")], "pending"),
        ("and was in_progress", [*MOVES[:6], Move(1, "in_progress", "canceled", 2, 2, 8, 7.0)],
         [cancel(6.9, 7.1, "canceled_before_retry")], "canceled"),
        ("claim 1 had run", [*MOVES[:4], Move(1, "pending", "canceled", 1, 1, 7, 5.0)],
         [cancel(4.9, 5.1, "canceled_before_start")], "canceled"),
        ("nobody had run it", [MOVES[0], Move(1, "pending", "canceled", 0, 0, None, 5.0)],
         [cancel(4.9, 5.1, "canceled_before_retry")], "canceled"),
    ],
)  # fmt: skip
def test_each_lie_about_moves_is_found(lie: str, moves: list[Move], calls: list[Call], status: str | None) -> None:
    found = of(calls, moves=moves, states={} if status is None else {1: status})
    assert any(lie in one for one in found), found


def push(name: str, began: float, ended: float | None, label: str) -> Call:
    return call(name, began, ended, job=None, more={"of": 1, "label": label})


def test_the_last_push_is_what_a_claim_brings() -> None:
    pushes = [push("push", 0, 1, "a"), push("push", 2, 4, "b"), push("push", 3, 5, "c")]
    brought = {label: of([*pushes, push("given", 6, 7, label)]) for label in ("a", "b", "c", "of nobody")}
    assert [label for label, found in brought.items() if found] == ["a"]
    assert "brought an earlier push" in brought["a"][0]
    assert of([*pushes[:1], push("push", 2, 7, "b"), push("given", 6, 8, "a")]) == [], "it may have come later"
