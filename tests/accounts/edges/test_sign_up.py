"""The sign-up page: what it takes, what it refuses and how, where one is sent."""

import pytest
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from pytest_django import Settings

from accounts.models import Guest
from ratelimits import operations as ratelimits
from tests import farm
from tests.accounts.edges.test_login import ELSEWHERE
from tests.accounts.integration import people
from tests.looped import looped

pytestmark = pytest.mark.django_db
PAGE = "/accounts/sign-up/"
GIVEN = {"username": "ada", "password1": farm.PASSWORD, "password2": farm.PASSWORD}


class TestSignUp:
    def test_makes_an_account_and_logs_in(self, client: Client) -> None:
        answer = client.post(PAGE, GIVEN | {"email": "ada@example.com"}, follow=True)
        person = User.objects.get()
        assert (person.username, person.email) == ("ada", "ada@example.com")
        assert client.session[SESSION_KEY] == str(person.pk)
        assert answer.redirect_chain == [("/", 302)]
        assert "Welcome, ada." in answer.text

    @looped(
        ("fields", "field", "sentence"),
        [
            ({"password2": "another password"}, "password2", "You must type the same password each time."),
            ({"password1": "short", "password2": "short"}, "password1", "This password is too short."),
            ({"password1": "password123", "password2": "password123"}, "password1", "This password is too common."),
            (
                {"username": "two words"},
                "username",
                "Enter a valid username. This value may contain only letters, numbers, and @/./+/-/_ characters.",
            ),
            ({"username": "bob"}, "username", "A user with that username already exists."),
            ({"username": "BOB"}, "username", "A user with that username already exists."),
            ({"username": "admin"}, "username", "A user with that username already exists."),
            ({"username": "\u0430da"}, "username", "A username is written in one script: this one mixes letters"),
            ({"username": "nul\x00"}, "username", "Null characters are not allowed."),
            ({"email": "no address"}, "email", "Enter a valid email address."),
            ({"username": ""}, "username", "This field is required."),
            ({"password1": ""}, "password1", "This field is required."),
        ],
        rolled_back=True,
    )
    def test_says_at_the_field_what_is_wrong(
        self, client: Client, fields: dict[str, str], field: str, sentence: str
    ) -> None:
        farm.user("bob")
        answer = client.post(PAGE, GIVEN | fields)
        assert answer.status_code == 422
        assert " ".join(answer.context["form"].errors[field]).startswith(sentence)
        assert (User.objects.count(), SESSION_KEY in client.session) == (1, False)

    def test_names_all_that_is_wrong_at_once_and_keeps_what_was_typed(self, client: Client) -> None:
        farm.user("bob")
        fields = {"username": "bob", "email": "no address", "password1": "short", "password2": "other"}
        answer = client.post(PAGE, fields)
        assert set(answer.context["form"].errors) == {"username", "email", "password1", "password2"}
        summary = answer.text[answer.text.index('role="alert"') : answer.text.index("</ul>")]
        assert [f'href="#id_{field}"' in summary for field in fields] == [True] * 4
        assert ('value="bob"' in answer.text, 'value="short"' in answer.text) == (True, False)

    def test_does_not_tell_by_the_thousand_which_names_are_taken(self, client: Client) -> None:
        ratelimits.limit("sign-up/address", key="address:127.0.0.1", count=29)
        statuses = [client.post(PAGE, GIVEN | {"password2": "other"}).status_code for _ in range(2)]
        assert statuses == [422, 429]

    def test_does_not_send_passwords_back(self, client: Client) -> None:
        assert farm.PASSWORD not in client.post(PAGE, GIVEN | {"username": "two words"}).text

    def test_answers_429_when_too_many_come(self, client: Client) -> None:
        ratelimits.limit("sign-up", count=50)
        answer = client.post(PAGE, GIVEN)
        assert (answer.status_code, int(answer.headers["Retry-After"]) <= 6) == (429, True)
        assert "Try again in" in answer.text
        assert not User.objects.exists()

    def test_is_limited_by_address(self, client: Client) -> None:
        ratelimits.limit("sign-up/address", key="address:127.0.0.1", count=30)
        assert client.post(PAGE, GIVEN).status_code == 429
        assert Client(REMOTE_ADDR="10.0.0.9").post(PAGE, GIVEN).status_code == 302

    def test_goes_on_to_a_page_of_this_site_alone(self, client: Client) -> None:
        assert client.post(PAGE, GIVEN | {"next": "/accounts/groups/"}).headers["Location"] == "/accounts/groups/"
        for number, target in enumerate(ELSEWHERE):
            fields = GIVEN | {"username": f"ada{number}", "next": target}
            assert Client().post(PAGE, fields).headers["Location"] == "/"

    def test_is_passed_by_for_who_is_in_already(self, client: Client) -> None:
        client.force_login(farm.user("ada"))
        assert client.get(f"{PAGE}?next=/accounts/").headers["Location"] == "/accounts/"
        assert client.post(PAGE, GIVEN | {"username": "eve"}).headers["Location"] == "/"
        assert User.objects.count() == 1

    def test_is_closed_where_the_operator_says_so(self, client: Client, settings: Settings) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "SIGN_UP": False}
        for answer in (client.get(PAGE), client.post(PAGE, GIVEN)):
            assert answer.status_code == 403
            assert "ask whoever runs this farm for an account" in answer.text
        assert not User.objects.exists()
        assert PAGE not in client.get("/accounts/login/").text

    def test_needs_the_csrf_token(self) -> None:
        assert Client(enforce_csrf_checks=True).post(PAGE, GIVEN).status_code == 403

    def test_is_linked_from_the_log_in_and_keeps_where_one_was_going(self, client: Client) -> None:
        text = client.get("/accounts/login/?next=/accounts/groups/").text
        assert f'href="{PAGE}?next=/accounts/groups/"' in text
        assert 'href="/accounts/guest/?next=/accounts/groups/"' in text


class TestAGuestWhoSignsUp:
    def test_keeps_the_account_in_a_new_session(self, client: Client) -> None:
        people.come_as_guest(client)
        guest, before = User.objects.get(), client.session.session_key
        assert "Keep your account" in client.get(PAGE).text
        assert client.post(PAGE, GIVEN).headers["Location"] == "/"
        assert client.session[SESSION_KEY] == str(guest.pk)
        assert (client.session.session_key != before, "is_guest" in client.session) == (True, False)
        assert client.session.get_expiry_age() <= 14 * 86400
        assert list(Session.objects.values_list("pk", flat=True)) == [client.session.session_key]
        assert (User.objects.get().username, Guest.objects.count()) == ("ada", 0)
        assert "Change the password" in client.get("/accounts/").text
