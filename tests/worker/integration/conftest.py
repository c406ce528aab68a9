"""The server of a file, and how a worker comes to it."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from pytest_django import DjangoDbBlocker

from tests.farm import kind
from tests.servers import Server, serve


@pytest.fixture(scope="module")
def running(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Server]:
    """The server of this file: a start takes two seconds of a processor. The database is emptied behind it."""
    with django_db_blocker.unblock():
        with serve() as made:
            yield made
        connection.close()


@pytest.fixture
def server(running: Server) -> Server:
    kind("work")
    return running


@pytest.fixture(params=["ws", "http"])
def transport(request: pytest.FixtureRequest) -> Any:
    return request.param
