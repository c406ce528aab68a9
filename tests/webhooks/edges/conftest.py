"""One server for the tests of this folder; each test finds an empty inbox."""

from collections.abc import Iterator

import httpx
import pytest
from django.db import transaction
from pytest_django import DjangoDbBlocker

from tests.servers import Server, serve
from tests.webhooks.edges import emptying, sender
from webhooks.domain.deliveries import Source
from webhooks.models import Secret


@pytest.fixture
def transactional_db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """In place of pytest-django's: a test finds inbox, scheduler and limits empty, but for the secrets.

    Their rows are deleted; a flush of all tables takes half a second, and there are a hundred tests.
    """
    with django_db_blocker.unblock():
        emptying.empty()
        yield


@pytest.fixture(scope="package")
def running(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[Server]:
    """The server of these files."""
    with django_db_blocker.unblock(), serve(WEBHOOKS_PER_MINUTE="1000000") as server:
        yield server


@pytest.fixture(scope="module")
def kept_secrets(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[dict[Source, str]]:
    """A live secret for each source, for all tests of a file."""
    with django_db_blocker.unblock():
        with transaction.atomic():
            made = sender.make_secrets()
        yield made
        Secret.objects.all().delete()


@pytest.fixture(scope="module", autouse=True)
def _leave_nothing(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    yield
    with django_db_blocker.unblock():
        emptying.empty()


@pytest.fixture
def server(running: Server, transactional_db: None) -> Server:
    """The server, on an inbox that is empty."""
    return running


@pytest.fixture
def secrets(server: Server, kept_secrets: dict[Source, str]) -> dict[Source, str]:
    """The secrets that live."""
    return kept_secrets


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    """A client of the server."""
    with httpx.Client(base_url=server.url, timeout=20) as made:
        yield made
