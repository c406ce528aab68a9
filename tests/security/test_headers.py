"""What every answer tells browsers to do and not to do."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from pytest_django import Settings

from jobfarm.middleware import ADMIN_POLICY, POLICY
from tests import farm
from tests.looped import looped

pytestmark = pytest.mark.django_db
PAGES = ("/accounts/login/", "/", "/health/live", "/no/such/page", "/static/jobfarm/app.css", "/api/docs", "/jobs/")
API = ("/api/v1/jobs", "/api/v1/openapi.json", "/api/v1/worker/claim", "/api/nothing")
ADMINISTRATION = ("/admin/", "/admin/jobs/job/", "/admin/auth/user/", "/admin/nothing/")


@pytest.fixture
def operator(client: Client) -> Client:
    client.force_login(User.objects.create_superuser("root"))
    return client


def _directives(policy: str) -> dict[str, str]:
    return {name: values for name, _, values in (part.strip().partition(" ") for part in policy.split(";"))}


class TestThePolicy:
    @looped("path", [*PAGES, *API], rolled_back=True)
    def test_lets_this_site_alone_run_anything(self, operator: Client, path: str) -> None:
        directives = _directives(operator.get(path).headers["Content-Security-Policy"])
        assert directives == _directives(POLICY)
        assert directives["default-src"] == "'self'"
        assert not {
            name for name in directives if name.startswith(("script-src", "style-src", "connect-src", "worker-src"))
        }
        assert "unsafe" not in " ".join(directives.values())

    @pytest.mark.parametrize("path", ADMINISTRATION)
    def test_gives_way_for_the_administration_alone(self, operator: Client, path: str) -> None:
        directives = _directives(operator.get(path).headers["Content-Security-Policy"])
        assert directives == _directives(ADMIN_POLICY)
        differs = {name: values for name, values in directives.items() if values != _directives(POLICY).get(name)}
        assert differs == {"script-src": "'self' 'unsafe-eval'", "style-src": "'self' 'unsafe-inline'"}

    def test_forbids_frames_foreign_forms_and_foreign_bases(self) -> None:
        directives = _directives(POLICY)
        assert (directives["frame-ancestors"], directives["form-action"], directives["base-uri"]) == (
            "'none'",
            "'self'",
            "'self'",
        )
        assert directives["object-src"] == "'none'"


@looped("path", [*PAGES, *API, *ADMINISTRATION], rolled_back=True)
def test_every_answer_is_taken_for_what_it_says_and_tells_no_other_site_where_it_was(
    operator: Client, path: str
) -> None:
    headers = operator.get(path).headers
    directives = {name: headers.get(name) for name in ("X-Content-Type-Options", "Referrer-Policy")}
    assert directives == {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin"}
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert path.startswith("/static/") or headers["X-Frame-Options"] == "DENY"


class TestCookies:
    def _log_in(self, client: Client) -> Client:
        User.objects.create_user("ada", password=farm.PASSWORD)
        client.get("/accounts/login/")
        client.post("/accounts/login/", {"login": "ada", "password": farm.PASSWORD})
        return client

    def test_are_read_by_no_script_and_sent_by_no_other_sites_forms(self, client: Client) -> None:
        cookies = self._log_in(client).cookies
        session, csrf = cookies["sessionid"], cookies["csrftoken"]
        assert (bool(session["httponly"]), session["samesite"], csrf["samesite"]) == (True, "Lax", "Lax")
        assert {morsel["domain"] for morsel in cookies.values()} == {""}

    @pytest.mark.parametrize("is_secure", [True, False])
    def test_travel_by_tls_alone_where_the_operator_says_so(
        self, client: Client, settings: Settings, is_secure: bool
    ) -> None:
        settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = is_secure
        cookies = self._log_in(client).cookies
        assert {name: bool(cookies[name]["secure"]) for name in ("sessionid", "csrftoken")} == {
            "sessionid": is_secure,
            "csrftoken": is_secure,
        }


class TestTls:
    @pytest.fixture(autouse=True)
    def _hardened(self, settings: Settings) -> None:
        settings.SECURE_HSTS_SECONDS = 31_536_000
        settings.SECURE_HSTS_INCLUDE_SUBDOMAINS = True
        settings.SECURE_SSL_REDIRECT = True

    def test_is_demanded_of_browsers_for_as_long_as_the_operator_says(self) -> None:
        answer = Client().get("/accounts/login/", secure=True)
        assert answer.headers["Strict-Transport-Security"] == "max-age=31536000; includeSubDomains"

    def test_is_where_who_came_without_is_sent(self) -> None:
        answer = Client().get("/accounts/login/")
        assert (answer.status_code, answer.headers["Location"]) == (301, "https://testserver/accounts/login/")

    @pytest.mark.parametrize("path", ["/health/live", "/health/ready"])
    def test_is_not_asked_of_load_balancers(self, path: str) -> None:
        assert Client().get(path).status_code == 200

    def test_is_not_demanded_of_a_farm_without_it(self, settings: Settings) -> None:
        settings.SECURE_HSTS_SECONDS = 0
        assert "Strict-Transport-Security" not in Client().get("/accounts/login/", secure=True).headers


def test_a_foreign_host_is_refused(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["farm.example.org"]
    assert Client().get("/accounts/login/", headers={"Host": "evil.example"}).status_code == 400
    assert Client().get("/accounts/login/", headers={"Host": "farm.example.org"}).status_code == 200


def test_files_that_are_no_secret_are_served_to_a_copy_in_front_by_any_name(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["farm.example.org"]
    answer = Client().get("/static/jobfarm/app.css", headers={"Host": "origin.internal"})
    assert (answer.status_code, answer.get("X-Frame-Options")) == (200, None)
