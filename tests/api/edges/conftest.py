"""One server for the tests of a file. Each test finds an empty farm with the queues of the declared kinds."""

from collections.abc import Iterator

import pytest
from pytest_django import DjangoDbBlocker

from tests.api.edges import callers
from tests.api.edges.callers import Crew
from tests.servers import Server, serve


@pytest.fixture(scope="module")
def running(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Server]:
    """The server of this file's tests."""
    with django_db_blocker.unblock(), serve() as server:
        yield server


@pytest.fixture
def server(running: Server, transactional_db: None) -> Iterator[Server]:
    """The server, whose log must hold no traceback at the test's end."""
    logged_before = len(running.log)
    yield running
    callers.close_all()
    assert "Traceback" not in running.log[logged_before:], running.log[logged_before:]


@pytest.fixture
def crew(server: Server) -> Crew:
    """A worker of the queue chat that serves everybody."""
    return callers.crew(server)
