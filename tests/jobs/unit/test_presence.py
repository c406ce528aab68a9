"""Who counts as present, silent or gone, and how often the farm notes that it hears its workers."""

from datetime import UTC, datetime
from typing import Any

import pytest

from jobs.domain import presence
from jobs.domain.presence import Part, Process, State
from tests.looped import looped

BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


def process(part: Part = Part.JANITOR, **facts: Any) -> Process:
    """A janitor that has been there for an hour."""
    usual: dict[str, Any] = {"host": "here", "pid": 1, "age_s": 3600, "silent_s": 1}
    return Process(part=part, started_at=BEGUN, **usual | facts)


class TestAProcess:
    @looped(
        ("silent_s", "state"),
        [(0, State.PRESENT), (15, State.PRESENT), (15.1, State.SILENT), (60, State.SILENT), (60.1, State.GONE)],
    )
    def test_is_silent_and_then_gone(self, silent_s: float, state: State) -> None:
        assert process(silent_s=silent_s).state is state

    def test_that_said_that_it_ends_is_never_silent(self) -> None:
        assert process(silent_s=20, has_ended=True).state is State.ENDED

    def test_that_was_replaced_is_gone(self) -> None:
        killed, frozen, stopped = (
            process(Part.WEB, pid=1, silent_s=20),
            process(Part.WEB, pid=2, silent_s=40),
            process(Part.WEB, pid=3, silent_s=30, has_ended=True),
        )
        for begun, gone in (
            ([], set()),
            ([19], {1}),
            ([19, 29], {1}),  # that one took the place of the one that was stopped
            ([19, 29, 39], {1, 2}),
            ([21], set()),  # it began when the first was there, so it replaced the one that was stopped
            ([45], set()),
        ):
            new = [process(Part.WEB, pid=9, age_s=age_s) for age_s in begun]
            marked = presence.with_replaced([*new, killed, frozen, stopped, process(pid=7, age_s=5)])
            assert {one.pid for one in marked if one.state is State.GONE} == gone

    def test_on_another_machine_is_not_replaced(self) -> None:
        elsewhere = process(Part.WEB, host="there", age_s=5)
        assert presence.with_replaced([elsewhere, process(Part.WEB, silent_s=20)])[1].state is State.SILENT

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
    @looped(("lease_s", "beat_s", "gap_s"), [(600, 5, 150), (60, 5, 20), (12, 1, 4), (1, 0.25, 1), (0.1, 0.25, 1)])
    def test_is_noted_several_times_in_a_lease(self, lease_s: float, beat_s: float, gap_s: float) -> None:
        assert (presence.beat_s(lease_s), presence.gap_s(lease_s)) == (beat_s, gap_s)

    @pytest.mark.parametrize(("heartbeat_s", "grace_s"), [(20, 25), (4, 8), (0.3, 0.6)])
    def test_leaves_every_worker_a_heartbeat_and_a_margin(self, heartbeat_s: float, grace_s: float) -> None:
        assert presence.grace_s(heartbeat_s) == grace_s
