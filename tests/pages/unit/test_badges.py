"""Badges: every status that a page shows has a colour and a label, and the most urgent one wins."""

from datetime import UTC, datetime

from jobs.domain.bulks import Phase
from jobs.domain.states import AttemptOutcome
from jobs.queries.fleet import QueueRow
from jobs.templatetags import farm
from tests.looped import looped
from webhooks.domain.deliveries import Status
from webhooks.templatetags import webhooks

QUIET = {"name": "q", "paused_at": None, "ceiling": None, "pending": 0, "running": 0, "workers": 0}
PAUSED = {"paused_at": datetime(2026, 1, 1, tzinfo=UTC)}


def test_a_long_line_of_an_error_keeps_its_beginning_and_its_end() -> None:
    line = f"OSError: {'x' * 400}: the disk is full"
    shown = farm.last_line(f"Traceback\n{line}\n")
    assert (shown[:12], shown[-18:]) == ("OSError: xxx", ": the disk is full")
    assert len(shown) <= 300


class TestBadges:
    @looped("outcome", AttemptOutcome)
    def test_of_an_attempt_has_the_colour_of_its_line(self, outcome: AttemptOutcome) -> None:
        assert farm.outcome_badge(outcome)["status"] == farm.outcome_status(outcome)

    @looped("phase", Phase)
    def test_of_a_bulk_action_has_a_label(self, phase: Phase) -> None:
        assert farm.phase_badge(phase)["label"]

    @looped("status", Status)
    def test_of_a_delivery_begins_with_its_status(self, status: Status) -> None:
        assert webhooks.delivery_badge(status)["label"].startswith(status)

    @looped(
        ("numbers", "label"),
        [
            ({}, "no worker"),
            ({"workers": 1}, "open"),
            ({"workers": 1, "running": 1}, "busy"),
            ({"workers": 1, "running": 1, "pending": 1, "ceiling": 1}, "full"),
            ({"pending": 1}, "no worker"),
            ({"pending": 1, **PAUSED}, "paused"),
        ],
    )
    def test_of_a_queue_is_the_most_urgent_one(self, numbers: dict[str, object], label: str) -> None:
        row = QueueRow(**{**QUIET, **numbers})  # type: ignore[arg-type]  # the numbers of a test
        assert farm.queue_badge(row)["label"] == label

    def test_of_a_queue_with_jobs_that_nobody_takes_is_a_failure(self) -> None:
        rows = [QueueRow(**{**QUIET, "pending": pending}) for pending in (0, 1)]  # type: ignore[arg-type]
        assert [farm.queue_badge(row)["status"] for row in rows] == ["off", "failed"]
