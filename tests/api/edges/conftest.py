"""One server for the tests of this folder. Each test finds an empty farm with the queues of the declared kinds."""

from collections.abc import Iterator

import httpx
import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoDbBlocker

from tests.api.edges import callers
from tests.api.edges.callers import Crew
from tests.servers import Server, Serving


@pytest.fixture(scope="package")
def serving(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Serving]:
    """For the files that run one after another; it ends with the last of them, as tests of other folders must not hear
    of it. Tests that run a server of their own end it before."""
    serving = Serving()
    yield serving
    with django_db_blocker.unblock():
        serving.end()


@pytest.fixture(scope="module")
def running(serving: Serving, django_db_blocker: DjangoDbBlocker) -> Server:
    """The server of this file's tests."""
    with django_db_blocker.unblock():
        return serving.having()


@pytest.fixture
def server(running: Server, transactional_db: None) -> Iterator[Server]:
    """The server, whose log must hold no traceback at the test's end."""
    logged_before = len(running.log)
    yield running
    callers.close_all()
    assert "Traceback" not in running.log[logged_before:], running.log[logged_before:]


@pytest.fixture
def client(server: Server, ada: User) -> httpx.Client:
    """Whose the jobs are."""
    return callers.client(server, ada)


@pytest.fixture
def crew(server: Server) -> Crew:
    """A worker of the queue chat that serves everybody."""
    return callers.crew(server)
