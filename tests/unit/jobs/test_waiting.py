"""Why a job is not running, as sentences."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from jobs.domain import waiting
from jobs.domain.states import Status

AT = datetime(2024, 3, 10, 1, 59, tzinfo=UTC)
NEXT = waiting.Facts(
    status=Status.PENDING, queue="gpu", run_at=AT, due_in_s=0, shy_until=None, paused=False, ceiling=None,
    running=(), workers=1, shy_workers=0, ahead=0, ahead_limit=1000,
)  # fmt: skip

WAITS = {"limit": "llm", "limit_until": AT, "limit_in_s": 5}


def _codes(**facts: Any) -> list[str]:
    return [reason.code for reason in waiting.explain(replace(NEXT, **facts))]


def _sentence(**facts: Any) -> str:
    return waiting.explain(replace(NEXT, **facts))[0].sentence


class TestReasons:
    @pytest.mark.parametrize(
        ("facts", "codes"),
        [
            ({}, ["next"]),
            ({"status": Status.IN_PROGRESS, "paused": True}, ["not_waiting"]),
            ({"status": Status.TIMED_OUT}, ["not_waiting"]),
            ({"due_in_s": 5}, ["not_due"]),
            ({"due_in_s": 5, **WAITS}, ["waiting_for_limit"]),
            ({"due_in_s": 90, **WAITS, "paused": True}, ["waiting_for_limit", "not_due", "queue_paused"]),
            ({**WAITS, "limit_in_s": 0}, ["next"]),
            ({"due_in_s": 5, "ahead": 3}, ["not_due"]),
            ({"paused": True, "ceiling": 0}, ["queue_paused"]),
            ({"ceiling": 2, "running": (1, 2)}, ["queue_full"]),
            ({"ceiling": 2, "running": (1, 2, 3)}, ["queue_full"]),
            ({"ceiling": 2, "running": (1,)}, ["next"]),
            ({"workers": 0}, ["no_worker"]),
            ({"workers": 2, "shy_workers": 2}, ["all_failed_it"]),
            ({"workers": 2, "shy_workers": 1}, ["next"]),
            ({"ahead": 1}, ["ahead"]),
            (
                {"due_in_s": 1, "paused": True, "workers": 0, "ahead": 9},
                ["not_due", "queue_paused", "no_worker"],
            ),
            ({"paused": True, "workers": 0, "ahead": 9}, ["queue_paused", "no_worker", "ahead"]),
            (
                {"ceiling": 0, "workers": 1, "shy_workers": 1, "ahead": 1},
                ["queue_full", "all_failed_it", "ahead"],
            ),
        ],
    )
    def test_are_all_given_the_one_that_matters_most_first(
        self, facts: dict[str, Any], codes: list[str]
    ) -> None:
        assert _codes(**facts) == codes

    @pytest.mark.parametrize(
        ("facts", "sentence"),
        [
            ({"status": Status.IN_PROGRESS}, "It does not wait: it is in progress."),
            ({"due_in_s": 90}, "It is not due yet: it may start in 90 s."),
            ({"paused": True}, "The queue gpu is paused."),
            ({"ceiling": 0}, "The queue gpu is full: 0 of its jobs may run at a time."),
            (
                {"ceiling": 2, "running": (4, 7)},
                "The queue gpu is full: 2 of its jobs may run at a time.",
            ),
            ({"workers": 0}, "No live worker serves the queue gpu for this job."),
            ({"ahead": 1}, "1 job is ahead of it."),
            ({"ahead": 999}, "999 jobs are ahead of it."),
            ({"ahead": 1000}, "1,000 or more jobs are ahead of it."),
        ],
    )
    def test_read_as_sentences(self, facts: dict[str, Any], sentence: str) -> None:
        assert _sentence(**facts) == sentence

    def test_tell_who_fills_the_queue_among_the_numbers_alone(self) -> None:
        [full] = waiting.explain(replace(NEXT, ceiling=7, running=tuple(range(1, 8))))
        assert full.sentence == "The queue gpu is full: 7 of its jobs may run at a time."
        assert full.numbers == {"ceiling": 7, "running": [1, 2, 3, 4, 5, 6, 7]}


class TestADuration:
    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            (0, "1 s"), (0.4, "1 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h 0 min"),
            (7500, "2 h 5 min"), (2 * 86400 - 1, "47 h 59 min"), (2 * 86400, "2 days"), (10**7, "115 days"),
        ],
    )  # fmt: skip
    def test_is_said_as_people_say_it(self, seconds: float, text: str) -> None:
        assert waiting.duration(seconds) == text
