"""A worker that is drained gives back what it has not begun, and finishes the rest; and what it reports of itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from jobfarm_worker import Job, Worker, introduction
from jobfarm_worker.options import VERSION
from tests.worker.unit.outside import FarmServer, SayNo, until, working
from tests.worker.unit.test_worker_prefetch import Gate, echo, submitted, with_a_long_one

SMI = """#!/bin/sh
printf 'NVIDIA GeForce RTX 4090, 24564\\nNVIDIA H100, [N/A]\\n'
"""


class TestDrained:
    async def test_gives_back_what_lies_ready_and_finishes_what_runs(self, farm: FarmServer, worker: Worker) -> None:
        gate = Gate(worker)
        _, long, ready = with_a_long_one(farm)

        async with working(worker):
            await gate.reached.wait()
            farm.drain()
            await until(lambda: all(job.status == "pending" for job in ready if not job.finishes))
            gate.open.set()
            await until(lambda: long.status == "success")

        assert any(job.status == "pending" for job in ready)
        assert farm.refused_leases == []

    async def test_takes_jobs_again_once_that_has_ended(self, farm: FarmServer, worker: Worker) -> None:
        farm.is_drained = True
        [job] = submitted(farm, 1)
        echo(worker)

        async with working(worker):
            await until(lambda: farm.calls["claim"] > 0)
            assert job.status == "pending"
            farm.is_drained = False
            await until(lambda: job.status == "success")


class TestHello:
    async def test_says_what_the_worker_is_once(self, farm: FarmServer, worker: Worker) -> None:
        [job] = submitted(farm, 1)
        echo(worker)

        async with working(worker):
            await until(lambda: farm.calls["hello"] > 0 and job.status == "success")

        [hello] = farm.bodies["hello"]
        assert (hello["version"], hello["handlers"]) == (f"jobfarm-worker/{VERSION}", ["work"])
        assert hello["concurrency"] == 1
        assert hello["cpus"] == os.cpu_count()

    async def test_that_a_farm_does_not_know_is_no_trouble(self, farm: FarmServer, worker: Worker) -> None:
        farm.refusals["hello"] = [SayNo(422, "invalid")]
        [job] = submitted(farm, 1)
        echo(worker)

        async with working(worker):
            await until(lambda: farm.calls["hello"] > 0 and job.status == "success")

    @pytest.mark.parametrize(
        ("served", "announced"), [(OSError("away"), []), ([None], []), (["a\ud800", "b"], ["a�", "b"])]
    )
    async def test_says_what_it_can_of_models_and_the_worker_goes_on(
        self, farm: FarmServer, worker: Worker, served: Any, announced: list[str]
    ) -> None:
        class Handler:
            async def models(self) -> Any:
                if isinstance(served, Exception):
                    raise served
                return served

            def __call__(self, _job: Job) -> None:
                pass

        worker.handler("work")(Handler())
        async with working(worker):
            await until(lambda: farm.bodies["hello"])
            [job] = submitted(farm, 1)
            await until(lambda: job.status == "success")

        assert farm.bodies["hello"][0]["models"] == announced


class TestGpus:
    def test_are_what_nvidia_smi_names(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._install(SMI, tmp_path, monkeypatch)
        assert introduction.gpus() == [
            {"name": "NVIDIA GeForce RTX 4090", "memory_bytes": 24564 * 2**20},
            {"name": "NVIDIA H100"},
        ]

    @pytest.mark.parametrize("script", ["#!/bin/sh\nexit 9\n", "#!/bin/sh\nexec sleep 30\n"])
    def test_are_none_where_it_fails_or_hangs(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
    ) -> None:
        monkeypatch.setattr(introduction, "SMI_S", 0.3)
        self._install(script, tmp_path, monkeypatch)
        assert introduction.gpus() == []

    def _install(self, script: str, folder: Path, monkeypatch: Any) -> None:
        program = folder / "nvidia-smi"
        program.write_text(script)
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
