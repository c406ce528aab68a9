"""Guessing passwords from many sides: no more are looked at than the limit has."""

from collections import Counter
from collections.abc import Iterator

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from tests import farm
from tests.jobs.limits.concurrency import backends
from tests.jobs.limits.integration.sample import left

pytestmark = pytest.mark.django_db(transaction=True)
ADDRESS = "address:127.0.0.1"


@pytest.fixture(autouse=True)
def _counted(settings: Settings) -> Iterator[None]:
    settings.AUTHENTICATION_BACKENDS = ["tests.jobs.limits.concurrency.backends.Counting"]
    backends.reads.clear()
    yield
    backends.reads.clear()


def tried(username: str, password: str = "wrong", address: str = "127.0.0.1") -> int:
    """The status of one try."""
    given = {"login": username, "password": password}
    return Client(REMOTE_ADDR=address).post("/accounts/login/", given).status_code


class TestManyAtOnce:
    def test_have_ten_passwords_of_one_person_looked_at_from_one_address(self) -> None:
        User.objects.create_user("ada", password=farm.PASSWORD)
        statuses = farm.at_once(*[lambda: tried("ada") for _ in range(16)])
        assert Counter(statuses) == {200: 10, 429: 6}
        assert backends.reads == ["ada"] * 10

    def test_have_thirty_looked_at_from_one_address_whoever_is_tried(self) -> None:
        statuses = farm.at_once(*[lambda n=n: tried(f"user{n}") for n in range(36)])
        assert Counter(statuses) == {200: 30, 429: 6}
        assert len(backends.reads) == 30
        assert left("log-in/address", ADDRESS) == pytest.approx(0, abs=0.1)

    def test_who_know_the_password_leave_nothing_behind(self) -> None:
        for n in range(8):
            User.objects.create_user(f"user{n}", password=farm.PASSWORD)
        assert farm.at_once(*[lambda n=n: tried(f"user{n}", farm.PASSWORD) for n in range(8)]) == [302] * 8
        assert left("log-in/address", ADDRESS) == 30
        assert left("log-in", f"user:user1 {ADDRESS}") == 10
        assert left("log-in/name", "user:user1") == 100
