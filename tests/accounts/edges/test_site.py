"""The base of all pages: its policy, its files, its pages for errors."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.template import loader
from django.test import AsyncClient, Client

from jobfarm import middleware, navigation
from tests.looped import looped

TEMPLATES = Path(settings.BASE_DIR) / "templates"


@pytest.mark.django_db
class TestContentSecurityPolicy:
    def test_allows_this_site_alone(self, client: Client) -> None:
        policy = client.get("/accounts/login/").headers["Content-Security-Policy"]
        assert policy == (
            "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; "
            "base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
        )

    def test_allows_the_admin_what_its_scripts_need(self, client: Client) -> None:
        policy = client.get("/admin/login/").headers["Content-Security-Policy"]
        assert policy == f"{middleware.POLICY}; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'"

    def test_is_on_answers_for_errors_too(self, client: Client) -> None:
        assert client.get("/no/such/page").headers["Content-Security-Policy"] == middleware.POLICY

    async def test_is_there_under_asgi(self, async_client: AsyncClient) -> None:
        answer = await async_client.get("/static/jobfarm/app.css")
        assert answer.headers["Content-Security-Policy"] == middleware.POLICY

    @looped("template", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: path.name)
    def test_is_obeyed_by_our_templates(self, template: Path) -> None:
        """No script, style or handler inside a page: the browser would refuse them. JSON is none."""
        text = template.read_text()
        assert not re.search(
            r"<script(?![^>]*(?:\bsrc=|application/json))|<style|\sstyle=|\son[a-z]+=|javascript:|https?://", text
        )


class TestStaticFiles:
    @pytest.mark.parametrize("name", ["values.css", "app.css", "app.js", "theme.js", "favicon.svg"])
    async def test_come_whole_under_asgi_and_without_a_warning(self, async_client: AsyncClient, name: str) -> None:
        answer = await async_client.get(f"/static/jobfarm/{name}")
        expected = (Path(middleware.__file__).parent / "static" / "jobfarm" / name).read_bytes()
        assert (answer.status_code, answer.content) == (200, expected)
        assert answer.headers["Content-Length"] == str(len(expected))

    def test_come_in_parts_when_asked(self, client: Client) -> None:
        answer = client.get("/static/jobfarm/app.css", headers={"Range": "bytes=3-12"})
        assert (answer.status_code, len(answer.content)) == (206, 10)
        assert answer.headers["Content-Range"].startswith("bytes 3-12/")

    def test_are_not_sent_again_when_unchanged(self, client: Client) -> None:
        first = client.get("/static/jobfarm/app.css")
        again = client.get("/static/jobfarm/app.css", headers={"If-None-Match": first.headers["ETag"]})
        assert (again.status_code, again.content) == (304, b"")

    def test_are_answered_to_head_with_their_length(self, client: Client) -> None:
        answer = client.head("/static/jobfarm/app.css")
        assert (answer.status_code, answer.content) == (200, b"")
        assert int(answer.headers["Content-Length"]) > 1000

    @pytest.mark.parametrize(
        "path", ["../settings.py", "jobfarm/../../settings.py", "jobfarm/%2e%2e/%2e%2e/settings.py"]
    )
    @pytest.mark.django_db
    def test_are_all_that_can_be_read(self, client: Client, path: str) -> None:
        assert client.get(f"/static/{path}").status_code == 404


class TestErrorPages:
    @pytest.mark.parametrize("status", ["400", "403", "403_csrf", "404", "405", "500", "503"])
    def test_are_rendered_without_a_request(self, status: str) -> None:
        """The page for an error in the server must not cause another."""
        page = loader.get_template(f"{status}.html").render()
        assert "</html>" in page
        assert "accounts" not in page

    @pytest.mark.django_db
    def test_say_that_there_is_no_such_page(self, client: Client) -> None:
        answer = client.get("/no/such/page")
        assert answer.status_code == 404
        assert "This page does not exist" in answer.text


@pytest.mark.django_db
class TestBase:
    def test_shows_staff_the_way_to_the_admin_and_others_not(self, client: Client) -> None:
        client.force_login(User.objects.create_user("ada"))
        member = client.get("/accounts/").text
        client.force_login(User.objects.create_user("bob", is_staff=True))
        assert ('href="/admin/"' in member, 'href="/admin/"' in client.get("/accounts/").text) == (False, True)

    def test_lets_keyboards_skip_to_the_content(self, client: Client) -> None:
        page = client.get("/accounts/login/").text
        assert page.index('href="#main"') < page.index("<header")
        assert 'id="main"' in page


class TestWays:
    @pytest.mark.parametrize(
        ("path", "nearest"),
        [("/", "/"), ("/jobs/", "/jobs/"), ("/jobs/7/", "/jobs/"), ("/jobs/new/", "/jobs/new/"), ("/accounts/", None)],
    )
    def test_mark_the_nearest_address_above_a_page(self, path: str, nearest: str | None) -> None:
        assert navigation._nearest(["/", "/jobs/", "/jobs/new/"], path) == nearest
