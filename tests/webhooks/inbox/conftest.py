"""An empty inbox for each test, and ways to fill it without a server."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytest_django import DjangoDbBlocker

import tests.emptying
from tests import farm
from tests.webhooks.edges import emptying
from webhooks.handlers import registry
from webhooks.handlers.registry import Event
from webhooks.models import Secret

Handler = Callable[[Event], str | None]


@pytest.fixture
def transactional_db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """In place of pytest-django's: inbox, scheduler and limits are empty before a test and after it."""
    with django_db_blocker.unblock():
        emptying.empty()
        yield
        emptying.empty()
        Secret.objects.all().delete()


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, Handler], None]:
    """Let a function handle a type of event for the length of the test."""

    def register(source: str, event_type: str, handler: Any) -> None:
        monkeypatch.setitem(registry._handlers, (source, event_type), handler)

    return register


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Iterator[None]:
    """No rules but those of the test, no job of another, and a kind to start jobs of."""
    monkeypatch.setattr(registry, "_declared", [])
    farm.kind("deploy")
    yield
    tests.emptying.empty()
