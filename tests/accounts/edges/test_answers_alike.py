"""What somebody outside could tell apart by an answer or the work behind it, and input that breaks what reads it."""

from typing import Any

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.core import mail
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from accounts import operations
from accounts.models import OneTimeLink
from tests import farm
from tests.accounts.edges.test_login import ELSEWHERE, log_in
from tests.accounts.edges.test_second_factors import CODE_PAGE, code, with_app

pytestmark = pytest.mark.django_db
RESET = "/accounts/password/reset/"
ODD = ["[]", "{}", "7", "null", '"x"', '{"id": 1, "rawId": 1, "response": []}', '{"response": {"userHandle": "AAAA"}}']


def seen(path: str, fields: dict[str, str] | None = None, *, method: str = "post") -> tuple[int, int, str]:
    """Statements of an answer to a stranger, its status, and where it leads."""
    with CaptureQueriesContext(connection) as statements:
        answer: Any = getattr(Client(), method)(path, fields)
    return len(statements), answer.status_code, answer.headers.get("Location", "")


class TestAnswers:
    @pytest.fixture(autouse=True)
    def _with_mail(self, settings: Settings) -> None:
        settings.HAS_MAIL_SERVER = True
        settings.ACCOUNT_EMAIL_VERIFICATION = "optional"
        for name in ("ada", "off"):
            person = User.objects.create_user(name, f"{name}@example.com", farm.PASSWORD, is_active=name == "ada")
            EmailAddress.objects.create(user=person, email=f"{name}@example.com", primary=True, verified=True)
        seen("/accounts/login/", method="get")  # what a process asks once

    def test_to_a_log_in_are_alike_for_who_was_switched_off(self) -> None:
        names = ("ada", "off", "nobody", "ADA")
        answers = [seen("/accounts/login/", {"login": name, "password": "wrong"}) for name in names]
        assert len(set(answers)) == 1, answers

    def test_to_a_new_password_are_alike_for_every_address(self) -> None:
        names = ("ada", "off", "nobody")
        answers = [seen(RESET, {"email": f"{name}@example.com"}) for name in names]
        assert {answer[1:] for answer in answers} == {(302, f"{RESET}sent/")}
        assert max(answers)[0] - min(answers)[0] <= 2, answers  # of 27: allauth reads the names of who has it
        assert len(mail.outbox) == len(names)  # the most of its time

    def test_to_a_link_are_alike_however_it_opens_nothing(self) -> None:
        ada = User.objects.get(username="ada")
        spent, old = operations.one_time_link(ada), operations.one_time_link(ada)
        Client().post(spent)
        OneTimeLink.objects.filter(used_at=None).update(expires_at=farm.now())
        for method in ("get", "post"):
            answers = [seen(path, method=method) for path in (spent, old, "/accounts/link/made-up/")]
            assert len(set(answers)) == 1, answers

    def test_to_an_address_that_somebody_has_are_those_to_any(self, client: Client) -> None:
        log_in(client)
        client.post("/accounts/confirm/", {"password": farm.PASSWORD})
        pages = []
        for email in ("off@example.com", "new@example.com"):
            added = client.post("/accounts/email/", {"action_add": "", "email": email}, follow=True)
            pages.append((added.redirect_chain, added.text.replace(email, "").count("sent to")))
            EmailAddress.objects.filter(email=email, user__username="ada").delete()
        assert pages[0] == pages[1]


class TestWhatIsSent:
    def test_however_long_breaks_nothing(self, client: Client) -> None:
        long = "x" * 200_000
        for path, fields in (
            ("/accounts/login/", {"login": long, "password": long}),
            ("/accounts/sign-up/", {"username": long, "password1": long, "password2": long, "email": f"{long}@x.org"}),
            ("/accounts/guest/", {"captcha": long, "letters": long}),
            (f"/accounts/link/{long[:3000]}/", {}),
        ):
            assert client.post(path, fields).status_code < 500, path
        assert client.get("/api/v1/jobs", headers={"Authorization": f"Bearer {long}"}).status_code == 401

    @pytest.mark.parametrize("credential", ODD)
    def test_for_a_passkey_is_refused_if_it_is_none(self, client: Client, credential: str) -> None:
        page = "/accounts/2fa/webauthn/login/"
        client.get(page)
        assert client.post(page, {"credential": credential}).status_code < 500
        with_app()
        log_in(client)
        client.get(CODE_PAGE)
        assert client.post(CODE_PAGE, {"credential": credential}).status_code < 500


class TestNextPages:
    @pytest.mark.parametrize("target", [*ELSEWHERE, "/\t/evil.example/", "\\\\evil.example", "///evil.example"])
    def test_of_other_sites_are_led_to_by_no_code_nor_who_is_in_already(self, client: Client, target: str) -> None:
        with_app()
        log_in(client)
        client.post(CODE_PAGE, {"code": code()})
        query = {"next": target}
        for answer in (
            client.get("/accounts/login/", query),
            client.get("/accounts/sign-up/", query),
            client.get("/accounts/guest/", query),
            client.post("/accounts/2fa/reauthenticate/", query | {"code": code(steps=1)}),
            client.post("/accounts/confirm/", query | {"password": farm.PASSWORD}),
        ):
            assert (answer.status_code, "evil" in answer.headers["Location"]) == (302, False)
