"""A small farm for tests of its pages: people, a shared job and somebody's own."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from pytest_django import Settings

from jobs import operations
from jobs.models import Job, Worker
from tests import farm


@pytest.fixture(autouse=True)
def _settings(settings: Settings, tmp_path: Path) -> None:
    """Files of tests have a place of their own."""
    settings.MEDIA_ROOT = tmp_path


@dataclass(frozen=True, slots=True, kw_only=True)
class Farm:
    """Ada owns `job` and shares it with her group, in which Bob is. Eve is a stranger, Oscar runs it all."""

    ada: User
    bob: User
    eve: User
    oscar: User
    worker: Worker
    job: Job

    def person(self, name: str) -> User:
        """Who has this name."""
        found: User = getattr(self, name)
        return found


@pytest.fixture
def little_farm(db: None) -> Farm:
    """The farm, with its job pending."""
    operations.sync()
    group = Group.objects.create(name="studio")
    ada, bob = farm.user("ada", groups=[group]), farm.user("bob", groups=[group])
    oscar = farm.user("oscar", is_staff=True)
    rights = ("view_job", "operate_job", "view_worker", "view_queue", "view_kind", "add_kind", "change_kind")
    allowed = Permission.objects.filter(codename__in=rights, content_type__app_label="jobs")
    through = User.user_permissions.through  # nobody watches his rights yet, and no line says who gave them
    through.objects.bulk_create(through(user=oscar, permission=each) for each in allowed)
    worker = farm.worker("w1", "chat", "image")
    job = operations.submit("chat", {"prompt": "Why is the sky blue?"}, owner=ada, group=group)
    return Farm(ada=ada, bob=bob, eve=farm.user("eve"), oscar=oscar, worker=worker, job=job)


@pytest.fixture
def browse() -> Callable[[User | None], Client]:
    """A browser of somebody who is logged in, or of nobody; its POSTs carry no CSRF token and need none."""

    def of(user: User | None) -> Client:
        client = Client()
        if user is not None:
            client.force_login(user)
        return client

    return of


Browse = Callable[[User | None], Client]
