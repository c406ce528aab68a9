"""What somebody outside learns and gets: nothing about names, no other site, no session of another, no forged form."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from django.contrib.auth import SESSION_KEY, hashers
from django.contrib.auth.models import User
from django.core import mail
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import URLPattern, URLResolver
from pytest_django import Settings

from accounts import operations, urls
from ratelimits import operations as ratelimits
from tests import farm
from tests.accounts.edges.test_login import ELSEWHERE, log_in
from tests.accounts.edges.test_second_factors import CODE_PAGE, code, with_app
from tests.accounts.integration import people

pytestmark = pytest.mark.django_db


class Counting(hashers.PBKDF2PasswordHasher):
    """Django's hasher, which counts how often it works."""

    algorithm = "counting"
    iterations = 1
    worked = 0

    def encode(self, password: Any, salt: str, iterations: int | None = None) -> str:
        type(self).worked += 1
        return str(super().encode(password, salt, iterations))


def work(act: Callable[[], Any]) -> tuple[int, int, str]:
    """How often a password was hashed for an answer, its status, and where it leads."""
    before = Counting.worked
    answer = act()
    return Counting.worked - before, answer.status_code, answer.headers.get("Location", "")


class TestNames:
    @pytest.fixture(autouse=True)
    def _counted(self, settings: Settings) -> None:
        settings.PASSWORD_HASHERS = [f"{__name__}.Counting"]
        settings.HAS_MAIL_SERVER = True
        person = User.objects.create_user("ada", "ada@example.com", farm.PASSWORD)
        EmailAddress.objects.create(user=person, email="ada@example.com", primary=True, verified=True)

    def test_of_a_log_in_cost_the_same_work_and_get_the_same_answer(self) -> None:
        def log_in(name: str) -> Any:
            return Client().post("/accounts/login/", {"login": name, "password": "wrong"})

        assert work(lambda: log_in("ada")) == work(lambda: log_in("eve")) == (1, 200, "")
        with CaptureQueriesContext(connection) as known:
            log_in("ada")
        with CaptureQueriesContext(connection) as unknown:
            log_in("eve")
        assert len(known) == len(unknown)

    def test_of_a_new_password_get_the_same_answer(self) -> None:
        def ask(email: str) -> Any:
            return Client().post("/accounts/password/reset/", {"email": email})

        known, unknown = work(lambda: ask("ada@example.com")), work(lambda: ask("eve@example.com"))
        assert known == unknown == (0, 302, "/accounts/password/reset/sent/")
        assert [message.to for message in mail.outbox] == [["ada@example.com"], ["eve@example.com"]]

    def test_of_a_sign_up_hash_a_password_where_an_address_is_known_too(self) -> None:
        def sign_up(name: str, email: str) -> Any:
            passwords = {"password1": farm.PASSWORD, "password2": farm.PASSWORD}
            return Client().post("/accounts/sign-up/", {"username": name, "email": email, **passwords})

        assert work(lambda: sign_up("bob", "ada@example.com")) == work(lambda: sign_up("cy", "cy@example.com"))


class TestForms:
    def test_of_every_page_need_the_csrf_token(self, ada: User) -> None:
        browser = Client(enforce_csrf_checks=True)
        browser.force_login(ada)
        checked = 0
        for pattern in _paths(urls.of_allauth, "/accounts/"):
            answer = browser.post(re.sub(r"<(?:\w+:)?\w+>", "1", pattern))
            refused = (answer.status_code, "That form has expired" in answer.text) == (403, True)
            assert refused or answer.status_code == 405, pattern
            checked += refused
        assert checked > 20


def _paths(patterns: Any, prefix: str) -> Iterator[str]:
    for each in patterns:
        path = prefix + str(each.pattern)
        if isinstance(each, URLResolver):
            yield from _paths(each.url_patterns, path)
        elif isinstance(each, URLPattern):
            yield path


class TestNextPages:
    @pytest.mark.parametrize("target", ELSEWHERE)
    def test_of_other_sites_are_led_to_by_no_form(self, ada: User, target: str) -> None:
        Client().get(f"/accounts/login/?next={target}")
        for fields, path in (
            ({"login": "ada", "password": farm.PASSWORD}, "/accounts/login/"),
            ({"username": "eve", "password1": farm.PASSWORD, "password2": farm.PASSWORD}, "/accounts/sign-up/"),
            ({}, operations.one_time_link(ada)),
        ):
            assert Client().post(f"{path}?next={target}", fields | {"next": target}).headers["Location"] == "/", path
        browser = Client()
        browser.force_login(ada)
        confirmed = browser.post(f"/accounts/confirm/?next={target}", {"password": farm.PASSWORD, "next": target})
        assert "evil" not in confirmed.headers["Location"]
        assert "evil" not in browser.post(f"/accounts/logout/?next={target}", {"next": target}).headers["Location"]

    def test_of_other_sites_are_led_to_by_no_second_factor(self, client: Client) -> None:
        with_app()
        client.post("/accounts/login/?next=//evil.example/", {"login": "ada", "password": farm.PASSWORD})
        assert client.post(f"{CODE_PAGE}?next=//evil.example/", {"code": code()}).headers["Location"] == "/"


class TestTooManyTries:
    def test_read_when_to_come_again_where_the_password_is_asked_for_again(self, client: Client, ada: User) -> None:
        log_in(client)
        ratelimits.limit("log-in", key="user:ada address:127.0.0.1", count=10)
        answer = client.post("/accounts/confirm/?next=/accounts/2fa/", {"password": farm.PASSWORD})
        assert (answer.status_code, "Try again in 6 minutes." in answer.text) == (429, True)

    def test_that_allauth_counts_read_what_to_do_too(self, client: Client, ada: User) -> None:
        log_in(client)
        for _ in range(6):
            answer = client.post("/accounts/password/", {"oldpassword": "wrong"})
        assert (answer.status_code, "Try again in a few minutes." in answer.text) == (429, True)


class TestSessions:
    def test_have_another_key_after_each_way_in(self, ada: User) -> None:
        for come in (
            lambda browser: browser.post("/accounts/login/", {"login": "ada", "password": farm.PASSWORD}),
            lambda browser: browser.post(operations.one_time_link(ada)),
            lambda browser: browser.post(
                "/accounts/sign-up/", {"username": "eve", "password1": farm.PASSWORD, "password2": farm.PASSWORD}
            ),
            people.come_as_guest,
        ):
            browser = Client()
            session = browser.session
            session["planted"] = True
            session.save()
            before = session.session_key
            come(browser)
            assert SESSION_KEY in browser.session
            assert browser.session.session_key != before

    def test_have_another_key_after_a_second_factor(self, client: Client) -> None:
        with_app()
        client.post("/accounts/login/", {"login": "ada", "password": farm.PASSWORD})
        before = client.session.session_key
        client.post(CODE_PAGE, {"code": code()})
        assert (SESSION_KEY in client.session, client.session.session_key == before) == (True, False)


class TestRecoveryCodes:
    def test_open_once(self) -> None:
        with_app()
        codes = RecoveryCodes(Authenticator.objects.get(type="recovery_codes")).get_unused_codes()
        for browser, status in ((Client(), 302), (Client(), 200)):
            browser.post("/accounts/login/", {"login": "ada", "password": farm.PASSWORD})
            assert browser.post(CODE_PAGE, {"code": codes[0]}).status_code == status
