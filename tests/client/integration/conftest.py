"""A farm for the tests of this folder, and who calls it."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from pytest_django import DjangoDbBlocker

from accounts import operations as accounts
from tests.api.edges import callers
from tests.api.edges.callers import Crew
from tests.client.either import KINDS, Either
from tests.farm import kind
from tests.servers import Server, serve


@pytest.fixture(scope="module")
def running(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Server]:
    """The server of a file; the database is emptied behind it."""
    with django_db_blocker.unblock():
        with serve() as made:
            yield made
        connection.close()


@pytest.fixture
def server(running: Server, transactional_db: None) -> Iterator[Server]:
    """With a kind `work`."""
    kind("work")
    yield running
    callers.close_all()


@pytest.fixture
def token(server: Server, ada: User) -> str:
    return accounts.create_token(ada, name="tests")[1]


@pytest.fixture
def crew(server: Server) -> Crew:
    """A worker that serves everybody, and does what the test does."""
    return callers.crew(server, "work")


Make = Callable[..., Any]


@pytest.fixture(params=KINDS)
def make(request: pytest.FixtureRequest, server: Server, token: str) -> Iterator[Make]:
    """A client, blocking and awaited, of the farm or of what stands before it."""
    made: list[Either] = []

    def new(url: str = server.url, *, token: str = token, **options: Any) -> Either:
        made.append(Either(request.param, url, token, **options))
        return made[-1]

    yield new
    for client in made:
        client.end()


@pytest.fixture
def farm(make: Make) -> Any:
    return make()
