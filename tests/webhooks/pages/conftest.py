"""People who look at the inbox, and an inbox that is empty at each test's begin."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from pytest_django import DjangoDbBlocker

from tests.webhooks.edges import emptying
from webhooks.handlers import registry
from webhooks.handlers.registry import Event
from webhooks.models import Secret

Handler = Callable[[Event], str | None]


@pytest.fixture
def transactional_db(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """In place of pytest-django's, which flushes all tables: inbox and scheduler are empty at each end of a test."""
    with django_db_blocker.unblock():
        _empty()
        yield
        _empty()


def _empty() -> None:
    User.user_permissions.through.objects.all().delete()
    emptying.empty()
    Secret.objects.all().delete()


def browser(user: User) -> Client:
    """A browser in which this person is logged in."""
    client = Client()
    client.force_login(user)
    return client


def person(name: str, *rights: str, **fields: Any) -> User:
    """Somebody with these rights in the inbox."""
    user = User.objects.create_user(name, **fields)
    user.user_permissions.set(Permission.objects.filter(codename__in=rights, content_type__app_label="webhooks"))
    return user


@pytest.fixture
def operator(transactional_db: None) -> Client:
    """Who runs it all."""
    return browser(User.objects.create_superuser("root"))


@pytest.fixture
def watcher(transactional_db: None) -> Client:
    """Who may look, and change nothing."""
    return browser(person("wanda", "view_delivery", is_staff=True))


@pytest.fixture
def handle(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str, Handler], None]:
    """Let a function handle a type of event for the length of the test."""

    def register(source: str, event_type: str, handler: Any) -> None:
        monkeypatch.setitem(registry._handlers, (source, event_type), handler)

    return register
