"""Why a job is not running, as sentences."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from jobs.domain.reasons import FOR_OPERATORS, REMEDIES, explain
from jobs.domain.states import Status
from jobs.domain.why_facts import Facts
from tests.looped import looped

AT = datetime(2024, 3, 10, 1, 59, tzinfo=UTC)
NEXT = Facts(
    status=Status.PENDING, queue="gpu", run_at=AT, due_in_s=0, expired=False, expires_at=None, excluded_until=None,
    paused_at=None, paused_by=None, ceiling=None, running=(), servers=1, in_scope=1, workers=1, excluded_alive=0,
    home_workers=1, busy_stealers=0, stealers_at_home=0, is_free=True, ahead=0, ahead_limit=1000,
)  # fmt: skip

WAITS = {"limit": "llm", "limit_until": AT, "limit_in_s": 5}
PAUSED = {"paused_at": AT, "paused_by": "boss"}
NOBODY = {"servers": 0, "in_scope": 0, "workers": 0, "home_workers": 0}
STEALERS = {"servers": 3, "in_scope": 3, "workers": 3, "home_workers": 0}


def _codes(**facts: Any) -> list[str]:
    return [reason.code for reason in explain(replace(NEXT, **facts))]


def _sentence(**facts: Any) -> str:
    return explain(replace(NEXT, **facts))[0].sentence


class TestAMomentFarAhead:
    def test_is_a_date_and_no_number_of_days(self) -> None:
        far = 26_333 * 86400
        assert _sentence(due_in_s=far) == "It is not due yet: it may start on 2024-03-10 01:59:00 UTC."
        assert _sentence(due_in_s=29 * 86400) == "It is not due yet: it may start in 29 days."
        assert "days" not in _sentence(**WAITS | {"limit_in_s": far})
        assert "days" not in explain(replace(NEXT, expires_at=AT, expires_in_s=far))[-1].sentence


class TestAClaimThatNobodyConfirmed:
    def test_is_told_apart_from_a_run(self) -> None:
        assert "has not confirmed" in _sentence(status=Status.IN_PROGRESS, is_unconfirmed=True)
        assert "in progress" in _sentence(status=Status.IN_PROGRESS)


class TestReasons:
    @looped(
        ("facts", "codes"),
        [
            ({}, ["next"]),
            ({"is_free": False}, ["next"]),
            ({"status": Status.IN_PROGRESS, **PAUSED}, ["not_waiting"]),
            ({"status": Status.TIMED_OUT}, ["not_waiting"]),
            ({"expired": True, **PAUSED, **NOBODY}, ["expired"]),
            ({"due_in_s": 5}, ["not_due"]),
            ({"due_in_s": 5, **WAITS}, ["waiting_for_limit"]),
            ({"due_in_s": 90, **WAITS, **PAUSED}, ["waiting_for_limit", "not_due", "queue_paused"]),
            ({**WAITS, "limit_in_s": 0}, ["next"]),
            ({"due_in_s": 5, "ahead": 3}, ["not_due"]),
            ({**PAUSED, "ceiling": 0}, ["queue_paused"]),
            ({"ceiling": 2, "running": (1, 2)}, ["queue_full"]),
            ({"ceiling": 2, "running": (1, 2, 3)}, ["queue_full"]),
            ({"ceiling": 2, "running": (1,)}, ["next"]),
            (NOBODY, ["no_worker"]),
            (NOBODY | {"servers": 2}, ["out_of_scope"]),
            (NOBODY | {"servers": 2, "in_scope": 1}, ["not_asked"]),
            ({"workers": 2, "excluded_alive": 2, "home_workers": 0}, ["all_failed_it"]),
            ({"workers": 2, "excluded_alive": 1}, ["next"]),
            (STEALERS, ["next"]),
            (STEALERS | {"busy_stealers": 1, "stealers_at_home": 1}, ["next"]),
            (STEALERS | {"busy_stealers": 1, "stealers_at_home": 2}, ["stealers_busy"]),
            (STEALERS | {"busy_stealers": 2, "excluded_alive": 1, "ahead": 3}, ["stealers_busy"]),
            (STEALERS | {"home_workers": 1, "busy_stealers": 2}, ["next"]),
            (STEALERS | {"busy_stealers": 3, "due_in_s": 5}, ["not_due"]),
            ({"ahead": 1}, ["ahead"]),
            ({"first": ("a",)}, ["ahead"]),
            ({"due_in_s": 1, **PAUSED, **NOBODY, "ahead": 9}, ["not_due", "queue_paused", "no_worker"]),
            ({**PAUSED, "ahead": 9}, ["queue_paused", "ahead"]),
            ({"ceiling": 0, "workers": 1, "excluded_alive": 1}, ["queue_full", "all_failed_it"]),
        ],
    )
    def test_are_all_given_the_one_that_matters_most_first(self, facts: dict[str, Any], codes: list[str]) -> None:
        assert _codes(**facts) == codes

    @looped(
        ("facts", "sentence"),
        [
            ({"status": Status.IN_PROGRESS}, "It is not waiting: it is in progress."),
            ({"status": Status.SUCCESS}, "It is not waiting: it succeeded."),
            ({"status": Status.TIMED_OUT}, "It is not waiting: it timed out."),
            (
                {"expired": True, "expires_at": AT},
                "It has expired (2024-03-10 01:59:00 UTC) and is about to end as timed out.",
            ),
            ({"due_in_s": 90}, "It is not due yet: it may start in 90 s."),
            (PAUSED, "The queue gpu has been paused since 2024-03-10 01:59:00 UTC."),
            ({"ceiling": 0}, "The queue gpu is full: 0 of its jobs may run at a time."),
            ({"ceiling": 2, "running": (4, 7)}, "The queue gpu is full: 2 of its jobs may run at a time."),
            (NOBODY, "No live worker serves the queue gpu."),
            (NOBODY | {"servers": 2}, "The live workers of the queue gpu serve other people's jobs only."),
            ({"ahead": 1}, "1 job is ahead of it."),
            ({"ahead": 999}, "999 jobs are ahead of it."),
            ({"ahead": 1000}, "1,000 or more jobs are ahead of it."),
            ({"first": ("a",)}, "Its workers take jobs from the queue a first."),
            (
                {"ahead": 2, "first": ("a", "b")},
                "2 jobs are ahead of it, and its workers take jobs from the queues a, b first.",
            ),
        ],
    )
    def test_read_as_sentences(self, facts: dict[str, Any], sentence: str) -> None:
        assert _sentence(**facts) == sentence

    @pytest.mark.parametrize(
        "facts",
        [
            {"ceiling": 1, "running": (98765,)},
            PAUSED,
            NOBODY | {"servers": 98765},
            STEALERS | {"workers": 98765, "busy_stealers": 98765},
        ],
        ids=str,
    )
    def test_tell_what_is_for_operators_among_the_numbers_alone(self, facts: dict[str, Any]) -> None:
        [reason] = explain(replace(NEXT, **facts))
        assert reason.numbers.keys() & FOR_OPERATORS
        assert "98765" not in reason.sentence
        assert "boss" not in reason.sentence


class TestRemedies:
    def test_are_named_by_every_reason(self) -> None:
        assert all(REMEDIES.values())

    @looped(
        ("facts", "codes"),
        [
            ({"status": Status.IN_PROGRESS}, ["cancel"]),
            ({"status": Status.FAILED}, ["retry"]),
            ({"due_in_s": 5}, ["run_now", "cancel"]),
            (PAUSED, ["resume_queue"]),
            ({"ceiling": 0}, ["raise_ceiling"]),
            (NOBODY, ["add_worker"]),
            (NOBODY | {"servers": 2}, ["add_worker"]),
            (NOBODY | {"servers": 2, "in_scope": 1}, ["ask_for_queue", "add_worker"]),
            ({"expired": True}, ["wait"]),
            (WAITS, ["wait", "raise_limit", "cancel"]),
            ({"workers": 2, "excluded_alive": 2, "home_workers": 0}, ["wait", "add_worker"]),
            (STEALERS | {"busy_stealers": 3}, ["wait", "add_worker"]),
            ({"ahead": 1}, ["wait", "add_worker"]),
            ({}, ["wait", "add_worker"]),
        ],
    )
    def test_are_what_changes_it(self, facts: dict[str, Any], codes: list[str]) -> None:
        [reason] = explain(replace(NEXT, **facts))
        assert [remedy.code for remedy in reason.remedies] == codes
