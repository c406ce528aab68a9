"""Who counts as present, silent or gone, and how often the farm notes that it hears its workers."""

from datetime import UTC, datetime
from typing import Any

import pytest

from jobs.domain import presence
from jobs.domain.presence import Part, Process, State

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


def process(part: Part = Part.JANITOR, **facts: Any) -> Process:
    """A janitor that has been there for an hour."""
    return Process(part=part, host="here", pid=1, started_at=BEGUN, **{"age_s": 3600, "silent_s": 1} | facts)


class TestAProcess:
    @pytest.mark.parametrize(
        ("silent_s", "state"),
        [
            (0, State.PRESENT),
            (15, State.PRESENT),
            (15.1, State.SILENT),
            (60, State.SILENT),
            (60.1, State.GONE),
        ],
    )
    def test_is_silent_and_then_gone(self, silent_s: float, state: State) -> None:
        assert process(silent_s=silent_s).state is state

    def test_that_said_that_it_ends_is_never_silent(self) -> None:
        assert process(silent_s=20, has_ended=True).state is State.ENDED

    def test_misses_two_reports_before_it_counts_as_silent(self) -> None:
        assert 2 * (presence.EVERY_S + 3) < presence.SILENT_S


class TestTheFarm:
    def test_starts_while_all_of_it_is_new(self) -> None:
        assert presence.is_starting([process(age_s=2), process(Part.WEB, age_s=19)])
        assert not presence.is_starting([process(age_s=2), process(Part.WEB, age_s=21)])

    def test_of_which_nothing_is_there_does_not_start(self) -> None:
        assert not presence.is_starting([])
        assert not presence.is_starting([process(age_s=2, has_ended=True)])

    def test_that_was_killed_and_started_again_starts(self) -> None:
        assert presence.is_starting([process(silent_s=20), process(Part.WEB, age_s=3)])

    def test_expects_a_janitor_that_is_restarted_and_none_that_was_killed(self) -> None:
        web = process(Part.WEB)
        assert presence.is_expected([web, process(silent_s=3, has_ended=True)], Part.JANITOR)
        assert not presence.is_expected([web, process(silent_s=16, has_ended=True)], Part.JANITOR)
        assert not presence.is_expected([web, process(silent_s=61)], Part.JANITOR)


class TestReachability:
    @pytest.mark.parametrize(
        ("lease_s", "beat_s", "gap_s"), [(600, 5, 150), (60, 5, 20), (12, 1, 4), (1, 0.25, 1), (0.1, 0.25, 1)]
    )
    def test_is_noted_several_times_in_a_lease(self, lease_s: float, beat_s: float, gap_s: float) -> None:
        assert (presence.beat_s(lease_s), presence.gap_s(lease_s)) == (beat_s, gap_s)

    @pytest.mark.parametrize(("heartbeat_s", "grace_s"), [(20, 25), (4, 8), (0.3, 0.6)])
    def test_leaves_every_worker_a_heartbeat_and_a_margin(self, heartbeat_s: float, grace_s: float) -> None:
        assert presence.grace_s(heartbeat_s) == grace_s
