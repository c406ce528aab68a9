"""The way in for guests: a picture, a session of its own, and what a guest is shown and refused."""

from io import BytesIO
from typing import Any

import pytest
from captcha.models import CaptchaStore
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from PIL import Image
from pytest_django import Settings

from accounts import http, operations
from accounts.models import ApiToken, Guest
from jobs import operations as jobs
from jobs.models import Job, Worker
from postgres import clock
from ratelimits import operations as ratelimits
from tests import farm
from tests.accounts.edges.test_login import ELSEWHERE
from tests.accounts.integration import people

pytestmark = pytest.mark.django_db
PAGE = "/accounts/guest/"


@pytest.fixture
def guest(client: Client) -> User:
    """Somebody who came in as a guest with `client`."""
    people.come_as_guest(client)
    return User.objects.get()


class TestThePicture:
    def test_is_drawn_here(self, client: Client) -> None:
        captcha = client.get(PAGE).context["captcha"]
        answer = client.get(f"/accounts/guest/{captcha}.png")
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, "image/png")
        assert "no-store" in answer.headers["Cache-Control"]
        picture = Image.open(BytesIO(answer.content))
        assert picture.width > 100
        assert len(picture.getcolors(maxcolors=100_000) or []) > 1

    def test_is_the_same_for_the_same_captcha_and_not_for_another(self, client: Client) -> None:
        first, second = (client.get(PAGE).context["captcha"] for _ in range(2))
        drawn = [client.get(f"/accounts/guest/{captcha}.png").content for captcha in (first, first, second)]
        assert drawn[0] == drawn[1] != drawn[2]

    def test_is_gone_once_it_was_answered(self, client: Client) -> None:
        captcha = client.get(PAGE).context["captcha"]
        client.post(PAGE, {"captcha": captcha, "letters": "wrong"})
        assert client.get(f"/accounts/guest/{captcha}.png").status_code == 410

    def test_says_nothing_of_its_letters_in_the_page(self, client: Client) -> None:
        answer = client.get(PAGE)
        assert people.solution(answer.context["captcha"]).lower() not in answer.text.lower()

    def test_is_drawn_only_so_often_for_one_address(self, client: Client) -> None:
        captcha = client.get(PAGE).context["captcha"]
        ratelimits.limit("guests/picture", key="address:127.0.0.1", count=59)
        assert client.get(f"/accounts/guest/{captcha}.png").status_code == 429
        assert client.get(PAGE).status_code == 429
        assert CaptchaStore.objects.count() == 1
        assert Client(REMOTE_ADDR="10.0.0.9").get(PAGE).status_code == 200


class TestComingIn:
    def test_is_for_who_reads_the_letters(self, client: Client) -> None:
        assert people.come_as_guest(client) == "/"
        guest = Guest.objects.get().user
        assert client.session[SESSION_KEY] == str(guest.pk)
        assert 29 * 86400 < client.session.get_expiry_age() <= 30 * 86400
        assert client.get("/accounts/").status_code == 200

    def test_shows_another_picture_after_a_wrong_answer(self, client: Client) -> None:
        first = client.get(PAGE).context["captcha"]
        answer = client.post(PAGE, {"captcha": first, "letters": "wrong"})
        assert (answer.status_code, answer.context["captcha"] != first) == (422, True)
        assert "Those were not the letters" in answer.text
        assert 'value="wrong"' not in answer.text
        again = answer.context["captcha"]
        assert client.post(PAGE, {"captcha": again, "letters": people.solution(again)}).status_code == 302

    @pytest.mark.parametrize(
        "given",
        [
            {},
            {"letters": ""},
            {"letters": "x" * 100},
            {"letters": "nul\x00"},
            {"letters": "AAAAA"},
            {"letters": "AAAAA", "captcha": "nul\x00"},
            {"letters": "AAAAA", "captcha": "x" * 100},
        ],
    )
    def test_is_refused_without_a_readable_answer(self, client: Client, given: dict[str, str]) -> None:
        answer = client.post(PAGE, given)
        assert (answer.status_code, User.objects.count(), SESSION_KEY in client.session) == (422, 0, False)

    def test_is_tried_twenty_times_an_hour_from_one_address(self, client: Client) -> None:
        ratelimits.limit("guests/captcha", key="address:127.0.0.1", count=20)
        captcha = client.get(PAGE).context["captcha"]
        answer = client.post(PAGE, {"captcha": captcha, "letters": people.solution(captcha)})
        assert (answer.status_code, int(answer.headers["Retry-After"]) > 100) == (429, True)
        assert "Too many requests" in answer.text

    def test_goes_on_to_a_page_of_this_site_alone(self, client: Client) -> None:
        assert people.come_as_guest(client, next="/accounts/groups/") == "/accounts/groups/"
        for target in ELSEWHERE[:3]:
            assert people.come_as_guest(Client(), next=target) == "/"

    def test_is_passed_by_for_who_is_in_already(self, client: Client, guest: User) -> None:
        assert client.get(f"{PAGE}?next=/accounts/").headers["Location"] == "/accounts/"
        assert client.post(PAGE, {"letters": "x"}).headers["Location"] == "/"

    def test_is_closed_where_the_operator_says_so(self, client: Client, settings: Settings) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "GUESTS": False}
        for answer in (client.get(PAGE), client.post(PAGE, {"letters": "x"})):
            assert (answer.status_code, "does not admit guests" in answer.text) == (403, True)
        assert PAGE not in client.get("/accounts/login/").text

    def test_needs_the_csrf_token(self) -> None:
        assert Client(enforce_csrf_checks=True).post(PAGE, {"letters": "x"}).status_code == 403


class TestAGuest:
    def test_is_told_until_when_and_how_to_stay(self, client: Client, guest: User) -> None:
        text = client.get("/accounts/").text
        assert "You are a guest" in text
        assert 'href="/accounts/sign-up/"' in text
        assert ("New API token" in text, "Set a password" in text) == (False, False)
        assert "you cannot come back" in text

    @pytest.mark.parametrize("path", ["/accounts/password/", "/accounts/password/set/", "/accounts/tokens/"])
    def test_makes_no_password_and_no_token(self, client: Client, guest: User, path: str) -> None:
        fields = {"password1": farm.PASSWORD, "password2": farm.PASSWORD, "name": "script"}
        answer = client.post(path, fields)
        assert (answer.status_code, "Guests cannot do that: sign up" in answer.text) == (403, True)
        guest.refresh_from_db()
        assert (guest.has_usable_password(), ApiToken.objects.exists()) == (False, False)

    @pytest.mark.parametrize(
        ("method", "path", "status"),
        [
            ("get", "/jobs/new/", 403),
            ("post", "/jobs/new/", 403),
            ("get", "/workers/", 200),
            ("post", "/workers/connect/", 403),
            ("get", "/api/v1/jobs", 200),
            ("post", "/api/v1/jobs", 403),
        ],
    )
    def test_looks_around_and_puts_no_work_or_workers_into_the_farm(
        self, client: Client, guest: User, method: str, path: str, status: int
    ) -> None:
        jobs.sync()
        given = {"kind": "chat", "payload": {}} if path.startswith("/api/") else {"name": "mine", "queues": "chat"}
        sent: dict[str, Any] = {"data": given} if method == "post" else {}
        if path.startswith("/api/"):
            sent["content_type"] = "application/json"
        answer = getattr(client, method)(path, **sent)
        assert answer.status_code == status
        assert (Job.objects.count(), Worker.objects.count()) == (0, 0)
        if status == 403:
            assert "sign up" in answer.text.lower()

    def test_ends_with_the_log_out(self, client: Client, guest: User) -> None:
        client.post("/accounts/logout/")
        assert Guest.objects.get().expires_at <= clock.now()
        assert operations.retire_guests() == {"deleted": 1, "kept": 0}

    def test_may_log_in_to_an_account_of_their_own(self, client: Client, guest: User) -> None:
        ada = farm.user("ada")
        assert client.get("/accounts/login/").status_code == 200
        given = {"login": "ada", "password": farm.PASSWORD}
        assert client.post("/accounts/login/", given).headers["Location"] == "/"
        assert client.session[SESSION_KEY] == str(ada.pk)
        assert "is_guest" not in client.session
        assert Guest.objects.get().expires_at <= clock.now()

    def test_is_over_when_a_one_time_link_logs_in_somebody_else_here(self, client: Client, guest: User) -> None:
        client.post(operations.one_time_link(farm.user("ada")))
        assert Guest.objects.get().expires_at <= clock.now()

    def test_stays_one_by_a_one_time_link_of_their_own(self, client: Client, guest: User) -> None:
        """An operator may help a guest back in whose session was lost."""
        client.post(operations.one_time_link(guest))
        assert client.session[SESSION_KEY] == str(guest.pk)
        assert Guest.objects.get().expires_at > clock.now()


class TestMembersOnly:
    @pytest.fixture
    def answered(self, rf: RequestFactory) -> object:
        """What a view for members alone answers to this user."""

        @http.members_only
        def view(request: HttpRequest) -> HttpResponse:
            return HttpResponse("in")

        def answer(user: object) -> tuple[int, str]:
            request = rf.get("/some/page/")
            request.user = user  # type: ignore[assignment]  # also AnonymousUser
            response = view(request)
            return response.status_code, response.headers.get("Location", "")

        return answer

    def test_lets_people_in_asks_guests_to_sign_up_and_visitors_to_log_in(self, answered: object) -> None:
        from django.contrib.auth.models import AnonymousUser

        assert callable(answered)
        assert answered(farm.user("ada")) == (200, "")
        assert answered(people.guest()) == (403, "")
        assert answered(AnonymousUser()) == (302, "/accounts/login/?next=/some/page/")
