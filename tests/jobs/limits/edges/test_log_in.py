"""Failed log-ins, at the form and at the link: how many, whose they are, and what is said of one too many."""

from typing import Any

import pytest
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.test import Client

from accounts import operations
from accounts.models import OneTimeLink
from ratelimits import operations as limits
from ratelimits.models import Bucket
from tests import farm
from tests.jobs.limits.integration.sample import left

pytestmark = pytest.mark.django_db(transaction=True)
HERE = "address:127.0.0.1"
SIX_MINUTES = range(300, 361)  # seconds until one of ten tokens an hour has come in


def tried(username: str = "ada", password: str = "wrong", *, address: str = "127.0.0.1") -> Any:
    """The answer to one try at the form."""
    client = Client(REMOTE_ADDR=address)
    return client.post("/accounts/login/", {"login": username, "password": password})


def spent(username: str = "ada") -> None:
    """Ten failed log-ins of this name, all from here."""
    assert [tried(username).status_code for _ in range(10)] == [200] * 10


class TestTheForm:
    def test_says_when_to_try_again_and_does_not_look_at_the_password(self, ada: User) -> None:
        spent()
        answer = tried(password=farm.PASSWORD)
        assert answer.status_code == 429
        assert int(answer.headers["Retry-After"]) in SIX_MINUTES
        assert "no-store" in answer.headers["Cache-Control"]
        assert "Try again in 6 minutes." in answer.text
        assert SESSION_KEY not in answer.client.session

    def test_counts_a_name_whether_or_not_somebody_has_it(self, ada: User) -> None:
        for name in ("ada", "nobody"):
            spent(name)
            assert tried(name).status_code == 429
        assert left("log-in/address", HERE) == pytest.approx(10, abs=0.1)  # what is refused takes nothing

    def test_of_a_stranger_lock_nobody_out_elsewhere(self, ada: User) -> None:
        spent()
        assert tried().status_code == 429
        assert tried(password=farm.PASSWORD, address="192.0.2.1").status_code == 302

    def test_counts_a_name_from_everywhere_too_by_a_wider_limit(self, ada: User) -> None:
        """A hundred an hour: the next is let in after 36 s, and a one-time link at once."""
        tries = [tried(address=f"10.0.{n}.1").status_code for n in range(100)]
        assert tries == [200] * 100
        answer = tried(password=farm.PASSWORD, address="192.0.2.1")
        assert answer.status_code == 429
        assert int(answer.headers["Retry-After"]) <= 36
        assert tried("bob", address="192.0.2.1").status_code == 200
        assert Client().post(operations.one_time_link(ada)).status_code == 302

    def test_counts_an_address_whoever_is_tried_there(self, ada: User) -> None:
        assert [tried(f"user{n}").status_code for n in range(30)] == [200] * 30
        assert tried(password=farm.PASSWORD).status_code == 429
        assert tried(password=farm.PASSWORD, address="192.0.2.1").status_code == 302

    def test_forgets_the_failures_of_who_comes_in_and_gives_the_rest_that_one_back(self, ada: User) -> None:
        for _ in range(4):
            tried()
        assert tried(password=farm.PASSWORD).status_code == 302
        assert left("log-in", f"user:ada {HERE}") == 10
        assert left("log-in/address", HERE) == pytest.approx(26, abs=0.1)
        assert left("log-in/name", "user:ada") == pytest.approx(96, abs=0.1)

    def test_counts_nothing_that_is_no_try(self, ada: User) -> None:
        for fields in ({}, {"login": "ada"}, {"password": "x"}, {"login": "ada", "password": ""}):
            assert Client().post("/accounts/login/", fields).status_code == 200
        assert not Bucket.objects.exists()

    def test_takes_any_text_for_a_name(self) -> None:
        for name in ("a" * 150, "\x7f", "ädä", "a#" + "0" * 64):
            assert tried(name).status_code == 200
        assert Bucket.objects.filter(name="log-in").count() == 4

    def test_lets_in_again_who_was_reset(self, ada: User) -> None:
        spent()
        limits.reset("log-in", key=f"user:ada {HERE}")
        assert tried(password=farm.PASSWORD).status_code == 302


class TestTheDoorOfTheAdministration:
    def test_is_the_same_one(self, client: Client) -> None:
        assert client.get("/admin/login/?next=/admin/jobs/").headers["Location"] == (
            "/accounts/login/?next=%2Fadmin%2Fjobs%2F"
        )
        assert client.get("/admin/", follow=True).redirect_chain[-1][0].startswith("/accounts/login/")

    def test_looks_at_no_password(self, client: Client) -> None:
        assert client.post("/admin/login/", {"username": "ada", "password": farm.PASSWORD}).status_code == 405

    def test_tells_who_is_logged_in_and_may_not_enter(self, client: Client, ada: User) -> None:
        client.force_login(ada)
        assert client.get("/admin/login/").status_code == 403
        User.objects.update(is_staff=True)
        assert client.get("/admin/login/").headers["Location"] == "/admin/"


class TestALink:
    def test_that_opens_nothing_counts_against_the_address_that_tries_it(self, client: Client, ada: User) -> None:
        good = operations.one_time_link(ada)
        assert [client.post(f"/accounts/link/bad{n}/").status_code for n in range(10)] == [410] * 10
        answer = client.post(good)
        assert (answer.status_code, SESSION_KEY in client.session) == (429, False)
        assert int(answer.headers["Retry-After"]) in SIX_MINUTES
        assert "Try again in 6 minutes." in answer.text
        assert OneTimeLink.objects.get().used_at is None
        assert Client(REMOTE_ADDR="192.0.2.1").post(good).status_code == 302

    def test_that_opens_takes_nothing(self, client: Client, ada: User) -> None:
        client.post(operations.one_time_link(ada))
        assert left("log-in/link", HERE) == 10

    def test_may_be_looked_at_as_often_as_programs_like(self, client: Client, ada: User) -> None:
        path = operations.one_time_link(ada)
        assert {client.get(path).status_code for _ in range(12)} == {200}
        assert not Bucket.objects.exists()

    def test_lets_in_who_mistyped_the_password_too_often(self, client: Client, ada: User) -> None:
        spent()
        assert tried().status_code == 429
        assert client.post(operations.one_time_link(ada)).status_code == 302
