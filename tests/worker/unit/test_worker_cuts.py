"""A network that cuts and swallows: a worker is heard again within a third of its lease. Through a real proxy."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from jobfarm_worker import Job, Worker
from tests.chaos.proxy import Network, Proxy
from tests.effort import turn
from tests.worker.unit.outside import KEY, FarmServer, until, working

HEARTBEAT_S = 4.0  # a lease of 12 s
BY_SOCKET = turn(["auto", "ws"], of=2)


class Most(random.Random):
    """Dice that always show the most: every pause is as long as it may be."""

    def uniform(self, a: float, b: float) -> float:
        return b


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    network = Network()
    yield network
    network.close()


@pytest.fixture
def proxy(farm: FarmServer, network: Network) -> Iterator[Proxy]:
    farm.heartbeat_every = HEARTBEAT_S
    parts = urlsplit(farm.url)
    proxy = Proxy(network, (str(parts.hostname), int(parts.port or 0)))
    yield proxy
    proxy.close()


@pytest.fixture(params=[*BY_SOCKET, "http"])
def patient(request: pytest.FixtureRequest, farm: FarmServer, proxy: Proxy) -> Worker:
    """A worker behind the proxy that holds one job for as long as the test lasts."""
    worker = Worker(f"http://127.0.0.1:{proxy.port}{farm.base}", KEY, transport=request.param)
    worker.rng = Most()

    @worker.handler("wait")
    async def wait(_job: Job) -> None:
        await asyncio.sleep(600)

    return worker


async def reconnected(farm: FarmServer, *, within_s: float) -> None:
    """A call that names a lease arrives in time."""
    before = farm.calls["heartbeat"]
    await until(lambda: farm.calls["heartbeat"] > before, timeout_s=within_s)


class TestWorker:
    @pytest.mark.parametrize("patient", BY_SOCKET, indirect=True)
    async def test_whose_socket_is_cut_again_and_again_is_soon_back(
        self, farm: FarmServer, proxy: Proxy, patient: Worker
    ) -> None:
        """Pauses of 0.5, 1, 2, 4, 8, 16 and then 30 s kept one away for 26 s of a lease of 12."""
        async with working(patient):
            job = farm.submit("wait")
            await until(lambda: job.is_confirmed)
            for _ in range(9):
                before = sum(farm.ways.values()) + farm.opened
                proxy.forget()
                await until(lambda at=before: sum(farm.ways.values()) + farm.opened > at)  # type: ignore[misc]
            proxy.forget()
            await reconnected(farm, within_s=HEARTBEAT_S)

    async def test_whose_connection_swallows_everything_finds_another(
        self, farm: FarmServer, proxy: Proxy, patient: Worker
    ) -> None:
        """Nobody says that the connection is dead: it is the missing answer that tells."""
        async with working(patient):
            job = farm.submit("wait")
            await until(lambda: job.is_confirmed)
            proxy.fall_silent()
            proxy.forsake()  # what was open stays silent, new connections pass
            await reconnected(farm, within_s=2.5 * HEARTBEAT_S)  # the next heartbeat is due, and then not answered

    async def test_finishes_by_http_while_the_socket_is_away(self, farm: FarmServer, proxy: Proxy) -> None:
        worker = Worker(f"http://127.0.0.1:{proxy.port}{farm.base}", KEY)
        go_on = asyncio.Event()

        @worker.handler("wait")
        async def wait(_job: Job) -> None:
            await go_on.wait()

        async with working(worker):
            job = farm.submit("wait")
            await until(lambda: job.is_confirmed)
            assert farm.ways["http"] == 0
            farm.has_socket = False
            farm.cut_sockets()
            await until(lambda: worker.connection == "HTTP")
            go_on.set()
            await until(lambda: job.finishes, timeout_s=HEARTBEAT_S)

        assert farm.ways["http"] > 0
