"""How many jobs lie ready, by what the last ones took; and the jobs that lie ready."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from jobfarm_worker import BadOption, Worker
from jobfarm_worker.claims import RECENT, Intake, Prefetching, longest_ready_s
from jobfarm_worker.protocol import ClaimedJob


def prefetching(*runs_s: float, concurrency: int = 1, most: int = 100) -> Prefetching:
    made = Prefetching(concurrency=concurrency, most=most)
    for took_s in runs_s:
        made.note(took_s)
    return made


class TestRoom:
    def test_is_none_before_the_first_job_has_ended(self) -> None:
        assert prefetching().room(20) == 0

    @pytest.mark.parametrize(
        ("took_s", "room"), [(0.0, 100), (0.001, 100), (0.03125, 8), (0.25, 1), (0.26, 0), (60, 0)]
    )
    def test_is_what_begins_within_a_quarter_of_a_second(self, took_s: float, room: int) -> None:
        assert prefetching(*[took_s] * 64).room(20) == room

    def test_is_what_all_slots_begin(self) -> None:
        assert prefetching(*[0.03125] * 64, concurrency=4).room(20) == 32

    def test_grows_with_the_jobs_that_have_ended(self) -> None:
        assert [prefetching(*[0.001] * count).room(20) for count in (1, 2, 16)] == [2, 4, 32]

    def test_is_none_while_one_of_the_recent_jobs_may_not_wait(self) -> None:
        made = prefetching(*[0.001] * 64)
        made.note(0.001, may_wait=False)
        for _ in range(RECENT - 1):
            made.note(0.001)
            assert made.room(20) == 0
        made.note(0.001)
        assert made.room(20) == 100

    def test_never_exceeds_its_ceiling(self) -> None:
        assert (prefetching(*[0.001] * 64, most=7).room(20), prefetching(0.001, most=0).room(20)) == (7, 0)

    def test_is_less_where_heartbeats_are_short(self) -> None:
        """An eighth of an interval: what lies ready begins long before its lease, which nobody confirmed, ends."""
        assert prefetching(*[0.01] * 64).room(0.8) == 10

    def test_ends_with_one_long_job_and_returns_once_it_is_forgotten(self) -> None:
        made = prefetching(*[0.001] * 64, 10)
        assert made.room(20) == 0
        for _ in range(RECENT):
            made.note(0.001)
        assert made.room(20) == 100


class TestLongestReady:
    def test_is_half_a_second_and_less_where_heartbeats_are_short(self) -> None:
        assert (longest_ready_s(20), longest_ready_s(1)) == (0.5, 0.25)


def claimed(number: int, *, heartbeat_s: float = 20) -> ClaimedJob:
    return ClaimedJob(
        id=number, kind="k", queue="q", payload=None, attempt=1, lease=f"1-{number}", heartbeat_s=heartbeat_s
    )


class Given:
    """An intake, and what it gave back."""

    def __init__(self) -> None:
        self.back: asyncio.Queue[list[int]] = asyncio.Queue()
        self.intake = Intake(give_back=self._note)

    def _note(self, jobs: Sequence[ClaimedJob]) -> None:
        self.back.put_nowait([job.id for job in jobs])

    def begun(self) -> list[int]:
        return [job.id for job in iter(self.intake.next, None)]


class TestIntake:
    async def test_gives_in_the_order_in_which_jobs_came(self) -> None:
        given = Given()
        given.intake.put([claimed(1), claimed(2)])
        given.intake.put([claimed(3)])
        assert (len(given.intake), given.begun(), len(given.intake)) == (3, [1, 2, 3], 0)

    async def test_forgets_what_was_taken_from_us(self) -> None:
        given = Given()
        given.intake.put([claimed(1), claimed(2)])
        assert (given.intake.drop(1, 1), given.intake.drop(1, 1), given.begun()) == (True, False, [2])

    async def test_gives_back_those_that_are_meant(self) -> None:
        given = Given()
        given.intake.put([claimed(n) for n in range(1, 5)])
        given.intake.return_those(lambda job: job.id % 2 == 0)
        assert (given.back.get_nowait(), given.begun()) == ([2, 4], [1, 3])

    async def test_gives_back_what_did_not_begin_in_time(self) -> None:
        given = Given()
        given.intake.put([claimed(1, heartbeat_s=0.2), claimed(2)])
        assert await asyncio.wait_for(given.back.get(), 10) == [1]
        assert given.begun() == [2]

    async def test_begins_nothing_late_though_the_loop_was_blocked(self) -> None:
        """The timer has not run either: whoever takes the next job looks at the clock."""
        given = Given()
        given.intake.put([claimed(1, heartbeat_s=0)])
        assert (given.begun(), given.back.get_nowait()) == ([], [1])


def test_a_negative_prefetch_makes_no_sense() -> None:
    with pytest.raises(BadOption, match="0 jobs or more"):
        Worker("http://127.0.0.1:1", "key", prefetch=-1)
