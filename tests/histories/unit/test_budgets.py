"""Lies about budgets, and what is right though it looks like one."""

from typing import Any

import pytest

from tests.histories import budgets
from tests.histories.history import Bound, Call, History


def submit(job: int, began: float, ended: float | None, amount: float = 100) -> Call:
    outcome = "unknown" if ended is None else "ok"
    return Call(call="submit", job=job, began=began, ended=ended, outcome=outcome, more={"budgets": {"day": amount}})


def end(job: int, began: float, ended: float, used: float = 0, call: str = "finish", **facts: Any) -> Call:
    return Call(call=call, job=job, began=began, ended=ended, fence=1, more={"used": {"day": used}}, **facts)


def report(job: int, at: float) -> Call:
    return Call(call="report", job=job, began=at, ended=at, fence=1)


def found(*calls: Call, most: float = 250) -> list[str]:
    return [*budgets.faults(History(calls=[*calls], bounds=[Bound(name="day", most=most)]))]


LIVING = [report(job, 9) for job in (1, 2, 3)]


@pytest.mark.parametrize(
    ("lie", "calls"),
    [
        ("one after another", [submit(1, 1, 2), submit(2, 3, 4), submit(3, 5, 6), *LIVING]),
        ("all at once", [submit(1, 1, 6), submit(2, 2, 5), submit(3, 3, 4), *LIVING]),
        ("one alone", [submit(1, 1, 2, 251)]),
        ("beside what was used", [submit(1, 1, 2), end(1, 3, 4, 180), submit(2, 5, 6), report(2, 9)]),
        ("after one that used more than it had reserved", [submit(1, 1, 2, 1), end(1, 3, 4, 251), submit(2, 5, 6, 1)]),
        ("before the first is canceled", [submit(1, 1, 2), submit(2, 1, 2), submit(3, 3, 4), *LIVING[1:],
                                          end(1, 5, 6, call="cancel", answer="canceled_before_start")]),
        ("though one ends a second time", [submit(1, 1, 2), submit(2, 1, 2), end(1, 7, 8, 50),
                                                     end(1, 8, 9, 50), submit(3, 3, 4), *LIVING[1:]]),
    ],
)  # fmt: skip
def test_each_lie_about_a_budget_is_found(lie: str, calls: list[Call]) -> None:
    [fault] = found(*calls)
    assert "day is 250, and " in fault, lie


@pytest.mark.parametrize(
    ("why", "calls"),
    [
        ("one has ended", [submit(1, 1, 2), submit(2, 1, 2), end(1, 3, 4, 20), submit(3, 5, 6), *LIVING[1:]]),
        ("one is about to end", [submit(1, 1, 2), submit(2, 1, 2), end(1, 3, 6, 20), submit(3, 4, 5), *LIVING[1:]]),
        ("nobody knows whether one has ended", [submit(1, 1, 2), submit(2, 1, 2), submit(3, 3, 4), *LIVING[1:]]),
        ("nobody knows whether one was submitted", [submit(1, 1, None), submit(2, 1, 2), submit(3, 3, 4), *LIVING[1:]]),
        ("what was used came to light later", [submit(1, 1, 2), end(1, 3, 8, 251), submit(2, 4, 5), report(2, 9)]),
        ("there is room", [submit(1, 1, 2), submit(2, 1, 2, 150), *LIVING[:2]]),
    ],
)
def test_what_may_have_been_is_none(why: str, calls: list[Call]) -> None:
    assert found(*calls) == [], why
