"""Accounts at identity providers that somebody connects and removes: what that asks, and which lines it leaves."""

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client
from pytest_django import Settings

from accounts import operations, queries
from accounts.models import AuditEvent
from accounts.views import single_sign_on
from tests import farm
from tests.accounts.edges import provider as providers
from tests.accounts.edges.provider import Provider, path_of
from tests.accounts.edges.test_login import log_in
from tests.accounts.edges.test_single_sign_on import ADA, come, tie

pytestmark = pytest.mark.django_db
CONNECTIONS = "/accounts/sso/"
SET, NEW = "/accounts/password/set/", {"password1": "a new horse battery", "password2": "a new horse battery"}


@pytest.fixture(scope="module")
def process() -> Iterator[Provider]:
    with providers.running() as running:
        yield running


@pytest.fixture
def provider(process: Provider, settings: Settings) -> Provider:
    tie(settings, process.url)
    process.knows("1", **ADA)
    return process


def connect(browser: Client, sub: str = "1") -> Any:
    """Let the provider name this person to somebody who is in; the last answer of the farm."""
    start = browser.post("/accounts/oidc/sso/login/?process=connect")
    back = httpx.post(start.headers["Location"], data={"sub": sub}).headers["Location"]
    return browser.get(path_of(back))


def confirm(browser: Client, page: str = CONNECTIONS) -> None:
    browser.post(f"/accounts/confirm/?next={page}", {"password": farm.PASSWORD})


class TestConnecting:
    def test_and_removing_are_lines_of_the_audit_log(self, client: Client, provider: Provider, ada: User) -> None:
        log_in(client)
        confirm(client)
        connect(client)
        account = SocialAccount.objects.get()
        client.post(CONNECTIONS, {"account": account.pk})
        assert not SocialAccount.objects.exists()
        lines = AuditEvent.objects.filter(event__startswith="account_").order_by("pk")
        assert list(lines.values_list("event", "by", "person", "detail")) == [
            ("account_connected", ada.pk, ada.pk, "sso: 1"),
            ("account_removed", ada.pk, ada.pk, "sso: 1"),
        ]

    def test_by_a_proved_address_is_a_line_too(self, provider: Provider) -> None:
        old = User.objects.create_user("countess", "ada@example.com", farm.PASSWORD)
        EmailAddress.objects.create(user=old, email="ada@example.com", verified=True, primary=True)
        come(provider)
        assert AuditEvent.objects.get(event="account_connected").person == old

    def test_asks_for_the_password_again(self, client: Client, provider: Provider, ada: User) -> None:
        """Else who finds a browser open connects an account of their own, and has a way in for good."""
        log_in(client)
        assert connect(client).headers["Location"].startswith("/accounts/confirm/")
        assert not SocialAccount.objects.exists()
        confirm(client)
        assert SocialAccount.objects.get().user == ada

    def test_takes_nobody_elses_account(self, client: Client, provider: Provider, ada: User) -> None:
        eve = farm.user("eve")
        SocialAccount.objects.create(user=eve, provider="sso", uid="1", extra_data={})
        log_in(client)
        confirm(client)
        connect(client)
        assert (SocialAccount.objects.get().user, client.session[SESSION_KEY]) == (eve, str(ada.pk))

    def test_is_for_who_is_in(self, client: Client, provider: Provider) -> None:
        connect(client)
        assert (SocialAccount.objects.exists(), SESSION_KEY in client.session) == (False, False)


class TestAnAddress:
    def test_is_changed_by_who_knows_the_password(self, client: Client, ada: User) -> None:
        """Else who finds a browser open has a new password mailed to themselves."""
        log_in(client)
        added = {"action_add": "", "email": "eve@example.com"}
        assert client.post("/accounts/email/", added).headers["Location"].startswith("/accounts/confirm/")
        assert not EmailAddress.objects.exists()
        confirm(client, "/accounts/email/")
        client.post("/accounts/email/", added)
        assert EmailAddress.objects.get().email == "eve@example.com"


class TestWhoHasNoOtherWayIn:
    """Else who finds a browser open has one of their own, for good."""

    def test_sets_a_password_or_makes_a_token_after_coming_anew(self, client: Client, provider: Provider) -> None:
        come(provider, client)
        assert client.get(SET).status_code == 200  # they have just come
        session = client.session
        session[single_sign_on._MARK] -= 600
        session.save()
        for answer in (client.post("/accounts/tokens/", {"name": "x"}), client.post(SET, NEW), client.get(SET)):
            assert answer.headers.get("Location", "").startswith("/accounts/oidc/sso/login/?next=")
        assert '<form method="post"' in client.get(answer.headers["Location"]).text
        start = client.post(answer.headers["Location"]).headers["Location"]
        assert "prompt=login" in start
        back = httpx.post(start, data={"sub": "1"}).headers["Location"]
        assert client.get(path_of(back)).headers["Location"] == SET
        client.post(SET, NEW)
        assert User.objects.get().has_usable_password()

    def test_comes_back_to_the_form_of_a_token(self, client: Client, provider: Provider) -> None:
        """A provider leads back by an address alone."""
        provider.knows("1", **ADA, auth_time=int(time.time()) - 600)
        come(provider, client)
        form = {"name": "my laptop", "scopes": ["read"]}
        login = client.post("/accounts/tokens/", form).headers["Location"]
        provider.knows("1", **ADA)
        back = httpx.post(client.post(login).headers["Location"], data={"sub": "1"}).headers["Location"]
        page = client.get(path_of(back), follow=True)
        assert (page.status_code, 'action="/accounts/tokens/"' in page.text) == (200, True)
        assert "Your new API token" in client.post("/accounts/tokens/", form).text

    def test_has_come_when_the_provider_asked_and_not_when_it_remembered(
        self, client: Client, provider: Provider
    ) -> None:
        provider.knows("1", **ADA, auth_time=int(time.time()) - 600)
        come(provider, client)
        assert client.get(SET).status_code == 302


class TestATrap:
    """Somebody wrote another's address into an account of their own, and waits for its owner."""

    @pytest.fixture
    def trap(self) -> User:
        trap = User.objects.create_user("trap", "ada@example.com", farm.PASSWORD)
        EmailAddress.objects.create(user=trap, email="ada@example.com", primary=True)
        return trap

    def test_is_sprung_once_and_what_its_owner_sets_up_then_stays(
        self, provider: Provider, trap: User, settings: Settings
    ) -> None:
        elsewhere = Client()
        elsewhere.force_login(trap)
        apps = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"]
        apps.append({**apps[0], "provider_id": "elsewhere"})
        come(provider)
        assert elsewhere.get("/accounts/").status_code == 302
        operations.create_token(trap, name="ci")
        browser = Client()
        start = browser.post("/accounts/oidc/elsewhere/login/?process=login").headers["Location"]
        browser.get(path_of(httpx.post(start, data={"sub": "1"}).headers["Location"]))
        assert browser.session[SESSION_KEY] == str(trap.pk)
        assert (SocialAccount.objects.count(), queries.tokens_of(trap).count()) == (2, 1)

    def test_is_no_longer_entered_by_an_account_at_another_provider(
        self, client: Client, provider: Provider, trap: User, settings: Settings
    ) -> None:
        apps = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"]
        apps.append({**apps[0], "provider_id": "elsewhere"})
        SocialAccount.objects.create(user=trap, provider="elsewhere", uid="eve", extra_data={})
        provider.knows("eve", preferred_username="eve")
        assert come(provider).session[SESSION_KEY] == str(trap.pk)
        start = client.post("/accounts/oidc/elsewhere/login/?process=login").headers["Location"]
        client.get(path_of(httpx.post(start, data={"sub": "eve"}).headers["Location"]))
        assert client.session.get(SESSION_KEY) != str(trap.pk)

    def test_gets_no_new_password_by_another_address(
        self, client: Client, provider: Provider, trap: User, settings: Settings
    ) -> None:
        EmailAddress.objects.create(user=trap, email="eve@example.com", verified=True)
        User.objects.filter(pk=trap.pk).update(email="eve@example.com")
        come(provider)
        settings.HAS_MAIL_SERVER = True
        client.post("/accounts/password/reset/", {"email": "eve@example.com"})
        assert "/password/reset/" not in "".join(str(message.body) for message in mail.outbox)
