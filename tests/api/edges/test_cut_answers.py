"""Workers behind a proxy that loses every fourth answer: no job ends that they did not end (promise 2)."""

import asyncio
import subprocess
from collections import Counter
from collections.abc import Iterator

import pytest

from jobfarm_worker import Job as WorkersJob, Worker
from jobs import operations
from jobs.models import Attempt, Job
from postgres import connections
from tests import documented, farm
from tests.api.edges import callers
from tests.api.edges.callers import Crew
from tests.api.edges.cutting import CuttingProxy, cutting
from tests.servers import Server

WITHIN_S = 120


@pytest.fixture
def proxy(server: Server) -> Iterator[CuttingProxy]:
    operations.create_kind(operations.Kind(name="cut", queue="cut"))
    with cutting(server) as made:
        yield made


@pytest.fixture
def crew(server: Server) -> Crew:
    return callers.crew(server, "cut")


def _each_was_done_once(jobs: list[Job], proxy: CuttingProxy, *, at_least_cut: int) -> None:
    assert Counter(farm.statuses()) == {"success": len(jobs)}
    assert not Attempt.objects.exists()  # no attempt was lost, failed or given back
    assert {(job.attempt, job.failures) for job in Job.objects.all()} == {(1, 0)}
    assert proxy.cut >= at_least_cut


def _are_over() -> bool:
    with connections.released():
        return not Job.objects.living().exists()


class TestAWorkerOfCurl:
    def test_written_from_the_page_about_the_api_loses_nothing(self, proxy: CuttingProxy, crew: Crew) -> None:
        script = documented.block("api.md", "again()")
        jobs = farm.submit(12, "cut")
        environment = {"FARM": proxy.url, "KEY": crew.key, "PATH": "/usr/local/bin:/usr/bin:/bin"}
        subprocess.run(["bash", "-c", script], env=environment, check=True, timeout=WITHIN_S)
        _each_was_done_once(jobs, proxy, at_least_cut=3)


class TestOurWorker:
    @pytest.mark.parametrize(("prefetch", "count", "cut"), [(0, 120, 8), (100, 300, 2)])
    async def test_loses_nothing(self, proxy: CuttingProxy, crew: Crew, prefetch: int, count: int, cut: int) -> None:
        """A call that hands in many is one answer: fewer of them are cut."""
        jobs = await asyncio.to_thread(_submitted, count)
        worker = Worker(proxy.url, crew.key, concurrency=4, transport="http", prefetch=prefetch)
        runs: Counter[int] = Counter()

        @worker.handler("cut")
        async def run(job: WorkersJob) -> None:
            runs[job.id] += 1

        running = asyncio.create_task(worker.run())
        await asyncio.to_thread(farm.until, _are_over, within_s=WITHIN_S, what="the end of all")
        worker.stop()
        await running
        assert runs == {job.pk: 1 for job in jobs}
        await asyncio.to_thread(_checked, jobs, proxy, cut)


def _submitted(count: int) -> list[Job]:
    with connections.released():
        return farm.submit(count, "cut")


def _checked(jobs: list[Job], proxy: CuttingProxy, cut: int) -> None:
    with connections.released():
        _each_was_done_once(jobs, proxy, at_least_cut=cut)
