"""The variables that docs/accounts.md prints, with the issuer of the tests: somebody comes in by them."""

import httpx
import pytest
from django.contrib.auth.models import User

from tests import documented
from tests.accounts.edges import provider as providers
from tests.accounts.edges.test_single_sign_on import ADA
from tests.servers import serve

pytestmark = pytest.mark.django_db(transaction=True)


def test_people_of_a_provider_come_in_by_what_the_page_prints() -> None:
    printed = documented.block("accounts.md", "OIDC_ISSUER=")
    variables = dict(line.split("=", 1) for line in printed.splitlines())
    with providers.running() as provider, serve(**variables | {"OIDC_ISSUER": provider.url}) as server:
        provider.knows("1", **ADA)
        with httpx.Client(base_url=server.url) as browser:
            browser.get("/accounts/login/")
            csrf = {"X-CSRFToken": browser.cookies["csrftoken"]}
            start = browser.post("/accounts/oidc/sso/login/?process=login", headers=csrf)
            back = httpx.post(start.headers["Location"], data={"sub": "1"}).headers["Location"]
            assert back.startswith(server.url)
            assert browser.get(back).headers["Location"] == "/"
            assert browser.get("/accounts/").status_code == 200
    assert [group.name for group in User.objects.get(username="ada").groups.all()] == ["operators"]
