"""One server for each file of this folder, as tests/api/edges has it, which takes any number of sockets of one
address: what it does beyond its limits is asked in tests/live/edges."""

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from tests.api.edges.conftest import crew, server
from tests.servers import Server, serve

__all__ = ["crew", "server"]


@pytest.fixture(scope="module")
def running(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Server]:
    """The server of this file's tests."""
    with (
        django_db_blocker.unblock(),
        serve(JOBFARM_PAGE_SOCKETS_PER_ADDRESS="100000", JOBFARM_PAGE_SOCKETS_PER_PERSON="100000") as server,
    ):
        yield server
