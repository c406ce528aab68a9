"""One server for the tests of a file. Each test finds an empty farm with the queues of the declared kinds."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from pytest_django import DjangoDbBlocker

from jobs import operations
from tests.edges.network import callers
from tests.edges.network.callers import Crew
from tests.servers import Server, serve


@dataclass(frozen=True)
class ContentTypes:
    """Content types and permissions with their ids: a server remembers them, a flush deals out new ones."""

    types: list[ContentType]
    permissions: list[Permission]

    @classmethod
    def now(cls) -> "ContentTypes":
        """Those in the database."""
        return cls(types=list(ContentType.objects.all()), permissions=list(Permission.objects.all()))

    def restore(self) -> None:
        """Put them back."""
        with connection.cursor() as cursor:
            cursor.execute("TRUNCATE django_content_type CASCADE")
        ContentType.objects.bulk_create(self.types)
        Permission.objects.bulk_create(self.permissions)
        ContentType.objects.clear_cache()


@pytest.fixture(scope="module")
def running(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Iterator[tuple[Server, ContentTypes]]:
    """The server of this file's tests."""
    with django_db_blocker.unblock():
        known = ContentTypes.now()
        connection.close()
    with serve() as server:
        yield server, known


@pytest.fixture
def server(running: tuple[Server, ContentTypes], transactional_db: None) -> Iterator[Server]:
    """The server, whose log must hold no traceback at the test's end."""
    server, known = running
    known.restore()
    operations.sync()
    said_before = len(server.log)
    yield server
    callers.close_all()
    assert "Traceback" not in server.log[said_before:], server.log[said_before:]


@pytest.fixture
def ada(server: Server) -> User:
    """Somebody with an account."""
    return User.objects.create_user("ada")


@pytest.fixture
def crew(server: Server) -> Crew:
    """A worker of the queue chat that serves everybody."""
    return callers.crew(server)
