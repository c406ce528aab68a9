"""The account page: password and API tokens."""

import re
from typing import Any

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from pytest_django import DjangoAssertNumQueries

from accounts import operations
from accounts.errors import Unauthorized
from accounts.models import ApiToken
from tests import farm

pytestmark = pytest.mark.django_db
PASSWORD = "/accounts/password/"
NEW = {"password1": "a staple and a battery", "password2": "a staple and a battery"}
GIVEN: dict[str, Any] = {"name": "ci", "scopes": ["submit", "read", "operate"], "days": ""}


@pytest.fixture
def ada() -> User:
    """Somebody with a password, in a group."""
    ada = User.objects.create_user("ada", password=farm.PASSWORD)
    ada.groups.add(Group.objects.create(name="painters"))
    return ada


@pytest.fixture
def page(client: Client, ada: User) -> Client:
    """Ada's browser, where she has just shown her password again."""
    client.force_login(ada)
    client.post("/accounts/confirm/", {"password": farm.PASSWORD})
    return client


class TestAccountPage:
    @pytest.mark.parametrize("name", ["account", "create_token"])
    def test_is_for_people_who_are_logged_in(self, client: Client, name: str) -> None:
        url = reverse(f"accounts:{name}")
        answer = client.post(url) if name == "create_token" else client.get(url)
        assert answer.headers["Location"] == f"/accounts/login/?next={url}"

    def test_shows_ones_own_groups_and_live_tokens(self, page: Client, ada: User) -> None:
        operations.create_token(ada, name="my laptop")
        revoked, _ = operations.create_token(ada, name="old machine")
        operations.revoke_token(revoked.pk, by=ada)
        operations.create_token(User.objects.create_user("bob"), name="bobs thing")
        text = page.get(reverse("accounts:account")).text
        shown = [name in text for name in ("painters", "my laptop", "old machine", "bobs thing")]
        assert shown == [True, True, False, False]

    def test_costs_the_same_reads_however_many_tokens(
        self, page: Client, ada: User, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        for number in range(20):
            operations.create_token(ada, name=f"machine {number}")
        with django_assert_num_queries(
            9
        ):  # session, person, groups, whether a guest, tokens, two for what the person may do, two for what they use
            page.get(reverse("accounts:account"))

    def test_begins_at_its_head_and_not_at_a_form_below(self, page: Client) -> None:
        """On a phone, a field that takes the focus takes the page along."""
        assert "autofocus" not in page.get(reverse("accounts:account")).text


class TestTokens:
    def test_are_made_by_who_shows_the_password_again(self, client: Client, ada: User) -> None:
        """Else who finds a browser open has a key that outlives the session."""
        client.force_login(ada)
        path = reverse("accounts:create_token")
        redirect = client.post(path, GIVEN)
        assert (redirect.status_code, ApiToken.objects.exists()) == (302, False)
        assert redirect.headers["Location"].startswith("/accounts/confirm/")
        made = client.post(f"/accounts/confirm/?next={path}", {"password": farm.PASSWORD, "next": path})
        (key,) = set(re.findall(r"jft_[\w-]{43}", made.text))
        assert operations.token(key).user == ada

    def test_shows_the_key_once_with_a_curl_line_that_has_it(self, page: Client, ada: User) -> None:
        answer = page.post(reverse("accounts:create_token"), GIVEN)
        (key,) = set(re.findall(r"jft_[\w-]{43}", answer.text))
        assert operations.token(key).user == ada
        assert f"Authorization: Bearer {key}&quot; http://testserver/api/v1/jobs" in answer.text
        assert "no-store" in answer.headers["Cache-Control"]
        assert key not in page.get(reverse("accounts:account")).text

    def test_may_what_was_chosen_for_as_long_as_was_chosen(self, page: Client) -> None:
        page.post(reverse("accounts:create_token"), GIVEN | {"scopes": ["read"], "days": "30"})
        token = ApiToken.objects.get()
        assert token.expires_at is not None
        lasts = (token.expires_at - token.created_at).total_seconds()
        assert (token.scopes, round(lasts / 86_400, 2)) == ("read", 30)
        assert '<td role="cell" data-label="Scopes">read</td>' in page.get(reverse("accounts:account")).text

    def test_keeps_no_content_where_that_was_chosen(self, page: Client) -> None:
        page.post(reverse("accounts:create_token"), GIVEN | {"scopes": ["read"], "keep_content": "no"})
        assert not ApiToken.objects.get().keep_content
        assert "read, keeps no content" in page.get(reverse("accounts:account")).text

    @pytest.mark.parametrize(
        ("fields", "field"),
        [
            ({"scopes": []}, "scopes"),
            ({"scopes": ["all"]}, "scopes"),
            ({"days": "1e9"}, "days"),
            ({"days": "7"}, "days"),
        ],
    )
    def test_refuses_what_was_not_offered(self, page: Client, fields: dict[str, Any], field: str) -> None:
        answer = page.post(reverse("accounts:create_token"), GIVEN | fields)
        assert (answer.status_code, list(answer.context["token_form"].errors)) == (422, [field])
        assert not ApiToken.objects.exists()

    def test_makes_no_second_one_when_the_page_is_reloaded(self, page: Client) -> None:
        page.post(reverse("accounts:create_token"), GIVEN)
        again = page.post(reverse("accounts:create_token"), GIVEN)
        assert again.status_code == 422
        assert "You already have an API token of this name" in again.text
        assert ApiToken.objects.count() == 1

    @pytest.mark.parametrize("name", ["", "  ", "x" * 101, "a\x00b", "a\x07b"])
    def test_refuses_a_bad_name_and_says_why(self, page: Client, name: str) -> None:
        answer = page.post(reverse("accounts:create_token"), GIVEN | {"name": name})
        assert answer.status_code == 422
        assert answer.context["token_form"].errors["name"]
        assert not ApiToken.objects.exists()

    def test_escapes_the_name_everywhere(self, page: Client) -> None:
        name = "<script>alert(1)</script>\"'"
        made = page.post(reverse("accounts:create_token"), GIVEN | {"name": name}).text
        listed = page.get(reverse("accounts:account")).text
        assert "<script>alert" not in made + listed
        assert "&lt;script&gt;alert" in made
        assert "&lt;script&gt;alert" in listed

    def test_revokes_ones_own(self, page: Client, ada: User) -> None:
        token, key = operations.create_token(ada, name="ci")
        answer = page.post(reverse("accounts:revoke_token", args=[token.pk]))
        assert answer.headers["Location"] == "/accounts/#tokens"
        with pytest.raises(Unauthorized):
            operations.token(key)

    def test_answers_404_for_somebody_elses_and_for_none(self, page: Client) -> None:
        bob = User.objects.create_user("bob")
        token, key = operations.create_token(bob, name="ci")
        for number in (token.pk, 0, 10**30):
            assert page.post(reverse("accounts:revoke_token", args=[number])).status_code == 404
        assert operations.token(key).user == bob


class TestPassword:
    def test_is_changed_by_whoever_knows_the_old_one_and_other_sessions_end(self, page: Client, ada: User) -> None:
        elsewhere = Client()
        elsewhere.force_login(ada)
        before = page.session.session_key
        answer = page.post(PASSWORD, {"oldpassword": farm.PASSWORD} | NEW)
        assert (answer.status_code, answer.headers["Location"]) == (302, "/accounts/")
        ada.refresh_from_db()
        assert ada.check_password(NEW["password1"])
        assert "You are logged out everywhere else." in page.get(reverse("accounts:account")).text
        assert page.session.session_key != before
        assert elsewhere.get(reverse("accounts:account")).status_code == 302

    @pytest.mark.parametrize(
        ("old", "new", "again"),
        [
            ("wrong", "a staple and a battery", "a staple and a battery"),
            (farm.PASSWORD, "short", "short"),
            (farm.PASSWORD, "password123", "password123"),
            (farm.PASSWORD, "a staple and a battery", "another"),
        ],
    )
    def test_is_kept_when_something_is_wrong(self, page: Client, ada: User, old: str, new: str, again: str) -> None:
        answer = page.post(PASSWORD, {"oldpassword": old, "password1": new, "password2": again})
        assert (answer.status_code, bool(answer.context["form"].errors)) == (200, True)
        ada.refresh_from_db()
        assert ada.check_password(farm.PASSWORD)

    def test_is_set_without_an_old_one_by_whoever_has_none(self, client: Client) -> None:
        admin, _ = operations.ensure_administrator()
        client.post(operations.one_time_link(admin))
        page = client.get(reverse("accounts:account")).text
        assert "You have no password yet" in page
        assert "Set a password" in page
        assert client.get(PASSWORD).headers["Location"] == "/accounts/password/set/"
        client.post("/accounts/password/set/", NEW)
        admin.refresh_from_db()
        assert admin.check_password(NEW["password1"])


class TestSessions:
    @pytest.fixture
    def two(self, client: Client, ada: User) -> tuple[Client, Client]:
        """Two browsers of Ada's."""
        other = Client(REMOTE_ADDR="192.0.2.7", HTTP_USER_AGENT="Elsewhere/1")
        for browser in (client, other):
            browser.post("/accounts/login/", {"login": "ada", "password": farm.PASSWORD})
        return client, other

    def test_are_listed_with_where_they_began(self, two: tuple[Client, Client]) -> None:
        text = two[0].get("/accounts/sessions/").text
        assert ("192.0.2.7" in text, "Elsewhere/1" in text, "This one" in text) == (True, True, True)

    def test_are_ended_one_by_one(self, two: tuple[Client, Client], ada: User) -> None:
        here, other = two
        rows = {row.session_key: row.pk for row in UserSession.objects.filter(user=ada)}
        key = other.session.session_key
        assert here.post(f"/accounts/sessions/{rows[key]}/end/").headers["Location"] == "/accounts/sessions/"
        assert other.get("/accounts/").status_code == 302
        assert here.get("/accounts/").status_code == 200

    def test_are_ended_all_but_this_one(self, two: tuple[Client, Client]) -> None:
        here, other = two
        here.post("/accounts/sessions/")
        assert (here.get("/accounts/").status_code, other.get("/accounts/").status_code) == (200, 302)

    def test_of_others_and_ones_own_are_not_ended_here(self, two: tuple[Client, Client]) -> None:
        here, _ = two
        own = UserSession.objects.get(session_key=here.session.session_key)
        strange = Client()
        strange.force_login(farm.user("eve"))
        for browser in (here, strange):
            assert browser.post(f"/accounts/sessions/{own.pk}/end/").status_code == 404
        assert here.get("/accounts/").status_code == 200
