"""Single sign-on in a browser: through the provider's own pages and back, out at both, and the ways beside it."""

import re
from collections.abc import Iterator

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from tests import farm
from tests.accounts.edges import provider as providers
from tests.accounts.edges.provider import Provider
from tests.accounts.edges.test_second_factors import code
from tests.browser.conftest import Visit

pytestmark = pytest.mark.django_db(transaction=True)
ENVIRONMENT = {
    "OIDC_CLIENT_ID": "farm", "OIDC_CLIENT_SECRET": "s3cret", "OIDC_NAME": "Team", "MFA_REQUIRED": "all",
    "OIDC_GROUP_MAP": "ml-team:operators",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def provider() -> Iterator[Provider]:
    """The provider of the server of this file."""
    with providers.running() as running:
        ENVIRONMENT["OIDC_ISSUER"] = running.url
        yield running


def log_in(page: Page, sub: str) -> None:
    page.get_by_role("button", name="Log in with Team").click()
    page.get_by_placeholder("sub").fill(sub)
    page.get_by_role("button", name="Authorize").click()


def test_leads_through_the_provider_and_back_and_out_at_both(visit: Visit, provider: Provider) -> None:
    provider.knows("1", preferred_username="ada", email="ada@example.com", email_verified=True, groups=["ml-team"])
    page = visit("/accounts/login/?next=/accounts/groups/")
    log_in(page, "1")
    expect(page).to_have_url(re.compile("/accounts/groups/$"))
    expect(page.get_by_role("link", name="operators")).to_be_visible()
    page.locator("summary", has_text="ada").click()
    page.get_by_role("button", name="Log out").click()
    expect(page).to_have_url(re.compile(f"^{provider.url}/oauth2/end_session"))
    page.get_by_role("button", name="End session").click()
    expect(page).to_have_url(re.compile("/accounts/login/$"))
    expect(page.locator("summary", has_text="ada")).to_have_count(0)


def test_says_what_to_do_where_the_provider_lets_nobody_in(visit: Visit, complaints: list[str]) -> None:
    page = visit("/accounts/login/")
    page.get_by_role("button", name="Log in with Team").click()
    page.get_by_role("button", name="Deny").click()
    expect(page.get_by_role("link", name="Try again")).to_be_visible()
    assert complaints.pop().endswith("status of 401 (Unauthorized)")


def test_who_comes_by_password_sets_up_the_second_factor_that_is_asked_for(visit: Visit) -> None:
    # The server does not know the hasher of the tests.
    User.objects.create(username="bob", password=PBKDF2PasswordHasher().encode(farm.PASSWORD, "salt", 1000))
    page = visit("/accounts/login/?next=/accounts/sessions/")
    page.get_by_label("Username").fill("bob")
    page.get_by_label("Password").fill(farm.PASSWORD)
    page.get_by_role("button", name="Log in", exact=True).click()
    expect(page.get_by_text("Your account has to have a second factor")).to_be_visible()
    page.get_by_label("Authenticator code").fill(code(page.locator("#secret").inner_text().strip()))
    page.get_by_role("button", name="Set it up").click()
    expect(page.get_by_label("Unused codes")).to_be_visible()
