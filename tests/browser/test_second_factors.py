"""Second factors in a browser: an authenticator app, and a passkey of a virtual authenticator."""

import re
from urllib.parse import urlsplit

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from tests import farm
from tests.accounts.edges.test_second_factors import code
from tests.browser.conftest import Visit
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def page(visit: Visit, server: Server) -> Page:
    """The log-in page at localhost, which browsers hold for safe without TLS."""
    # The server does not know the hasher of the tests.
    User.objects.create(username="ada", password=PBKDF2PasswordHasher().encode(farm.PASSWORD, "salt", 1000))
    return visit(f"http://localhost:{urlsplit(server.url).port}/accounts/login/?next=/accounts/2fa/")


def log_in(page: Page) -> None:
    page.get_by_label("Username").fill("ada")
    page.get_by_label("Password").fill(farm.PASSWORD)
    page.get_by_role("button", name="Log in", exact=True).click()


def confirm(page: Page) -> None:
    page.get_by_label("Password").fill(farm.PASSWORD)
    page.get_by_role("button", name="Confirm").click()


def log_out(page: Page) -> None:
    page.locator("summary", has_text="ada").click()
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(re.compile("/accounts/login/$"))


def test_an_app_is_set_up_and_asked_for(page: Page) -> None:
    log_in(page)
    page.get_by_role("link", name="Activate").click()
    confirm(page)
    expect(page.get_by_alt_text("The secret as a QR code")).to_be_visible()
    secret = page.locator("#secret").inner_text().strip()
    page.get_by_label("Authenticator code").fill(code(secret))
    page.get_by_role("button", name="Set it up").click()
    expect(page.get_by_label("Unused codes")).to_be_visible()
    recovery = page.get_by_label("Unused codes").input_value().split()[0]
    log_out(page)
    log_in(page)
    expect(page).to_have_url(re.compile("/accounts/2fa/authenticate/$"))
    page.get_by_label("Code").fill(recovery)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("summary", has_text="ada")).to_be_visible()


def test_a_passkey_logs_in_alone(page: Page) -> None:
    session = page.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    options = {"protocol": "ctap2", "transport": "internal", "automaticPresenceSimulation": True}
    options |= {"hasResidentKey": True, "hasUserVerification": True, "isUserVerified": True}
    session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    log_in(page)
    page.get_by_role("link", name="Add").click()
    confirm(page)
    page.get_by_label("Passwordless").check()
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_label("Unused codes")).to_be_visible()
    assert Authenticator.objects.filter(user=User.objects.get(), type="webauthn").count() == 1
    log_out(page)
    page.get_by_role("button", name="Log in with a passkey").click()
    expect(page.locator("summary", has_text="ada")).to_be_visible()
