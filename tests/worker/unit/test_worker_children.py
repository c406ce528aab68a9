"""What a handler submits for itself, and how it waits for it, against a small farm in memory."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest

from jobfarm_worker import Child, Job, Worker, asking
from tests.worker.unit.outside import FarmServer, until, working
from tests.worker.unit.stored import SayNo


def plain(job: Job) -> Any:
    """Submit two, keep that, and wait for them; or say how the attempt began."""
    if job.last_checkpoint == "asked":
        return [job.last_checkpoint, job.submit("part", "more").id]
    children = [job.submit("part", {"n": n}, priority=3) for n in range(2)]
    job.checkpoint("asked")
    return job.wait_for(children)


async def awaiting(job: Job) -> Any:
    """The same on the loop."""
    if job.last_checkpoint == "asked":
        return [job.last_checkpoint, (await job.submit("part", "more")).id]
    children = [await job.submit("part", {"n": n}, priority=3) for n in range(2)]
    job.checkpoint("asked")
    return job.wait_for(children)


@pytest.mark.parametrize("handler", [plain, awaiting])
class TestAHandler:
    async def test_submits_waits_and_goes_on_at_the_next_position(
        self, farm: FarmServer, worker: Worker, handler: Any
    ) -> None:
        worker.handler("work")(handler)
        async with working(worker):
            job = farm.submit("work")
            await until(lambda: job.finishes)
            assert (job.status, job.waits) == ("suspended", {"children": [1000, 1001]})
            assert (job.checkpoint, job.counted) == ("asked", 2)
            assert farm.bodies["submit"][0]["priority"] == 3
            job.status = "pending"
            await until(lambda: job.finishes == 2)
        assert job.children == [(0, "part", {"n": 0}), (1, "part", {"n": 1}), (2, "part", "more")]
        assert (job.status, job.result) == ("success", ["asked", 1002])
        assert (worker.board.endings["suspended"], worker.board.endings["failed"]) == (1, 0)

    async def test_whose_answers_are_lost_submits_each_once(
        self, farm: FarmServer, worker: Worker, handler: Any
    ) -> None:
        worker.handler("work")(handler)
        farm.lose_answers["submit"] = 2
        farm.lose_answers["finish"] = 1
        async with working(worker):
            job = farm.submit("work")
            await until(lambda: job.finishes)
        assert (len(job.children), job.waits) == (2, {"children": [1000, 1001]})

    async def test_whose_child_is_refused_has_failed(self, farm: FarmServer, worker: Worker, handler: Any) -> None:
        worker.handler("work")(handler)
        farm.refusals["submit"] = [SayNo(409, "child_differs")]
        async with working(worker):
            job = farm.submit("work")
            await until(lambda: job.finishes)
        assert (job.status, job.retryable) == ("failed", False)
        assert job.error.startswith("The farm took no child: ")

    async def test_whose_wait_is_refused_has_failed(self, farm: FarmServer, worker: Worker, handler: Any) -> None:
        worker.handler("work")(handler)
        farm.refusals["finish"] = [SayNo(422, "not_a_child")]
        async with working(worker):
            job = farm.submit("work")
            await until(lambda: job.finishes)
        assert (job.status, job.retryable) == ("failed", False)
        assert job.error.startswith("The farm refused the wait: ")


async def test_one_that_was_stopped_submits_nothing_more(farm: FarmServer, worker: Worker) -> None:
    seen: list[Any] = []

    @worker.handler("work")
    def work(job: Job) -> None:
        seen.append(job.submit("part", 1))
        farm.take_away(farm.jobs[job.id])
        seen.append(job.submit("part", 2))

    async with working(worker):
        farm.submit("work")
        await until(lambda: worker.board.endings["stopped"])
    assert seen == [Child(id=1000, kind="part")]


@pytest.mark.parametrize(
    "bad",
    [{"timeout": timedelta(hours=1)}, {"timeout": math.inf}, {"schema": {"title": {1}}}, {"signal_key": "\ud800"}],
)
async def test_one_whose_wait_is_no_json_fails_and_the_worker_goes_on(
    farm: FarmServer, worker: Worker, bad: dict[str, Any]
) -> None:
    worker.handler("ask")(lambda job: job.wait_for(signal="approved", **bad))
    worker.handler("echo")(lambda job: job.payload)
    async with working(worker):
        asks, other = farm.submit("ask"), farm.submit("echo", "fine")
        await until(lambda: asks.finishes and other.finishes)
    assert (asks.status, other.result) == ("failed", "fine")
    assert "something that is not JSON" in asks.error


async def test_one_whose_child_is_no_json_fails_and_its_socket_stays(farm: FarmServer, worker: Worker) -> None:
    worker.handler("work")(lambda job: job.submit("part", "\ud800"))
    async with working(worker):
        job = farm.submit("work")
        await until(lambda: job.finishes)
        assert (job.status, farm.opened) == ("failed", 1 if farm.ways["ws"] else 0)
    assert "surrogates not allowed" in job.error


async def test_one_that_is_answered_as_it_looks_whether_it_was_stopped_has_the_answer(
    farm: FarmServer, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "LOOK_S", 0.0)
    worker.handler("work")(lambda job: [job.submit("part", n).id for n in range(100)])
    async with working(worker):
        job = farm.submit("work")
        await until(lambda: job.finishes)
    assert (job.status, job.error) == ("success", "")
