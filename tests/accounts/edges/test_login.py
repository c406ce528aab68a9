"""Log-in by password and by one-time link, log-out, and where one is sent afterwards."""

import re

import pytest
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.test import Client
from django.urls import reverse

from accounts import operations
from accounts.models import OneTimeLink
from tests import farm

pytestmark = pytest.mark.django_db
ELSEWHERE = [
    "https://evil.example/",
    "//evil.example/",
    "/\\evil.example",
    "http:///evil.example",
    "javascript:alert(1)",
    "https://testserver@evil.example/",
]


def log_in(client: Client, **fields: str) -> str:
    """Where the log-in form sends one; empty if it does not."""
    answer = client.post(reverse("account_login"), {"login": "ada", "password": farm.PASSWORD} | fields)
    return answer.headers.get("Location", "")


class TestLogIn:
    def test_lets_in_with_the_right_password(self, client: Client, ada: User) -> None:
        assert log_in(client) == "/"
        assert client.session[SESSION_KEY] == str(ada.pk)

    def test_says_what_is_wrong_without_saying_which(self, client: Client, ada: User) -> None:
        unknown = client.post(reverse("account_login"), {"login": "eve", "password": farm.PASSWORD})
        wrong = client.post(reverse("account_login"), {"login": "ada", "password": "wrong"})
        assert (unknown.status_code, wrong.status_code) == (200, 200)
        assert unknown.context["form"].errors == wrong.context["form"].errors
        assert SESSION_KEY not in client.session

    def test_refuses_somebody_who_was_switched_off(self, client: Client, ada: User) -> None:
        User.objects.update(is_active=False)
        assert log_in(client) == ""

    def test_goes_on_to_the_page_that_was_wanted(self, client: Client, ada: User) -> None:
        answer = client.get(reverse("accounts:account"))
        assert answer.headers["Location"] == "/accounts/login/?next=/accounts/"
        assert log_in(client, next="/accounts/") == "/accounts/"

    def test_goes_on_to_the_front_page_from_its_own_form(self, client: Client, ada: User) -> None:
        [page] = re.findall(r'name="next" value="([^"]*)"', client.get(reverse("account_login")).text)
        assert log_in(client, next=page) == "/"

    @pytest.mark.parametrize("target", ELSEWHERE)
    def test_sends_nobody_to_another_site(self, client: Client, ada: User, target: str) -> None:
        assert log_in(client, next=target) == "/"

    def test_begins_a_new_session(self, client: Client, ada: User) -> None:
        """Whoever planted a session's key in this browser must not share the session after the log-in."""
        planted = SessionStore()
        planted.create()
        before = str(planted.session_key)
        client.cookies["sessionid"] = before
        log_in(client)
        after = client.cookies["sessionid"].value
        assert after != before
        assert not Session.objects.filter(session_key=before).exists()

    def test_needs_the_csrf_token(self, ada: User) -> None:
        strict = Client(enforce_csrf_checks=True)
        answer = strict.post(reverse("account_login"), {"login": "ada", "password": farm.PASSWORD})
        assert answer.status_code == 403
        assert "That form has expired" in answer.text


class TestLogOut:
    def test_ends_the_session(self, client: Client, ada: User) -> None:
        client.force_login(ada)
        assert client.post(reverse("account_logout")).headers["Location"] == "/accounts/login/"
        assert not Session.objects.exists()

    def test_is_not_done_by_a_link(self, client: Client, ada: User) -> None:
        """A picture on another site could be such a link."""
        client.force_login(ada)
        assert client.get(reverse("account_logout")).status_code == 405
        assert client.session[SESSION_KEY] == str(ada.pk)


class TestOneTimeLink:
    def test_is_not_used_up_by_looking_at_it(self, client: Client, ada: User) -> None:
        path = operations.one_time_link(ada)
        for look in (client.get, client.head, client.get):
            answer = look(path)
            assert (answer.status_code, answer.headers["Cache-Control"]) == (
                200,
                "max-age=0, no-cache, no-store, must-revalidate, private",
            )
        assert OneTimeLink.objects.get().used_at is None
        assert SESSION_KEY not in client.session

    def test_tells_nobody_whose_it_is_before_it_is_used(self, client: Client, ada: User) -> None:
        assert "ada" not in client.get(operations.one_time_link(ada)).text

    def test_logs_in_when_the_button_is_pressed(self, client: Client, ada: User) -> None:
        answer = client.post(operations.one_time_link(ada))
        assert (answer.status_code, answer.headers["Location"]) == (302, "/")
        assert client.session[SESSION_KEY] == str(ada.pk)

    def test_goes_on_to_a_page_of_this_site_alone(self, client: Client, ada: User) -> None:
        good = client.post(operations.one_time_link(ada), {"next": "/accounts/"})
        assert good.headers["Location"] == "/accounts/"
        for target in ELSEWHERE:
            bad = client.post(operations.one_time_link(ada), {"next": target})
            assert bad.headers["Location"] == "/"

    def test_begins_a_new_session_also_for_somebody_else_who_is_logged_in(self, client: Client, ada: User) -> None:
        client.force_login(User.objects.create_user("bob"))
        before = client.session.session_key
        client.post(operations.one_time_link(ada))
        assert client.session[SESSION_KEY] == str(ada.pk)
        assert not Session.objects.filter(session_key=before).exists()

    def test_says_what_to_do_when_it_is_spent(self, client: Client, ada: User) -> None:
        path = operations.one_time_link(ada)
        client.post(path)
        for answer in (client.post(path), Client().get(path), Client().get("/accounts/link/nonsense/")):
            assert answer.status_code == 410
            assert "login_link USER" in answer.text

    def test_needs_the_csrf_token(self, ada: User) -> None:
        strict = Client(enforce_csrf_checks=True)
        path = operations.one_time_link(ada)
        assert strict.post(path).status_code == 403
        assert OneTimeLink.objects.get().used_at is None
