"""Outcomes that are handed in together, by two calls at a time."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from jobfarm_worker.farm import Farm
from jobfarm_worker.protocol import Call, ClaimedJob, JobResult
from jobfarm_worker.results import CALLS, MOST, Entry, Results
from jobfarm_worker.tasks import Tasks


class HeldFarm:
    """A farm whose answers wait until they are let go, oldest first."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self._answers: list[asyncio.Future[None]] = []

    async def insist(self, call: Call, *, heartbeat_s: float) -> dict[str, Any]:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.calls.append(call)
        self._answers.append(answer)
        await answer
        return {"finished": [{"id": entry["id"], "status": "success"} for entry in call.body["finished"]]}

    def answer(self) -> None:
        """Let the oldest answer go."""
        self._answers.pop(0).set_result(None)

    @property
    def sizes(self) -> list[int]:
        """How many outcomes each call brought."""
        return [len(call.body["finished"]) for call in self.calls]


class Handing:
    """Results whose calls claim ten jobs each, and what was handed in."""

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.verdicts: list[Exception | None] = []
        self.farm = HeldFarm()
        self.tasks = Tasks(self.errors.append)
        self.results = Results(
            farm=cast("Farm", self.farm),
            tasks=self.tasks,
            claim_next=lambda _: 10,
            on_jobs=lambda _: None,
            on_answer=lambda: None,
        )
        self._number = 0

    async def hand_in(self, count: int) -> None:
        for _ in range(count):
            self._number += 1
            claimed = ClaimedJob(
                id=self._number, kind="k", queue="q", payload=None, attempt=1, lease="l", heartbeat_s=20
            )
            self.results.hand_in(Entry(claimed, JobResult(success=True), self.verdicts.append), alone=False)
        await settled()


async def settled() -> None:
    """Whatever can happen at once has happened."""
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.fixture
async def handing() -> Any:
    handing = Handing()
    yield handing
    await handing.tasks.cancel(within_s=1)
    assert handing.errors == []


async def test_a_second_call_leaves_while_one_is_under_way_when_it_is_full_and_a_third_does_not(
    handing: Handing,
) -> None:
    await handing.hand_in(MOST)
    assert (handing.farm.sizes, handing.results.requested) == ([MOST], 10)
    await handing.hand_in(MOST - 1)
    assert handing.farm.sizes == [MOST]
    await handing.hand_in(1)
    assert (handing.farm.sizes, handing.results.requested) == ([MOST] * CALLS, 20)
    await handing.hand_in(2 * MOST)
    assert handing.farm.sizes == [MOST] * CALLS
    handing.farm.answer()
    await settled()
    assert handing.farm.sizes == [MOST] * 3
    handing.farm.answer()
    handing.farm.answer()
    await settled()
    assert (handing.farm.sizes, handing.results.requested) == ([MOST] * 4, 10)


async def test_a_second_call_leaves_at_once_when_nothing_is_left_to_do(handing: Handing) -> None:
    await handing.hand_in(MOST)
    handing.results.hurry()  # nothing waits: the next one is not alone for that
    await handing.hand_in(3)
    assert handing.farm.sizes == [MOST]
    handing.results.hurry()
    await settled()
    assert handing.farm.sizes == [MOST, 3]
    assert handing.results.is_pending
    handing.farm.answer()
    handing.farm.answer()
    await settled()
    assert not handing.results.is_pending
