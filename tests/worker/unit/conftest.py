"""One address for all tests of this folder, and a fresh farm behind it for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from jobfarm_worker import Worker
from tests.worker.unit.outside import KEY, Door, FarmServer


@pytest.fixture(scope="session")
def door() -> Iterator[Door]:
    with Door().open() as door:
        yield door


@pytest.fixture
def farm(door: Door) -> FarmServer:
    return FarmServer().served_by(door)


@pytest.fixture(params=["ws", "http"])
def transport(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def worker(farm: FarmServer, transport: Any) -> Worker:
    return Worker(farm.url, KEY, transport=transport)


@pytest.fixture
def socket_worker(farm: FarmServer) -> Worker:
    return Worker(farm.url, KEY, transport="ws")
