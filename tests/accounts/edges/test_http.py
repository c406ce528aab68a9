"""Who calls the API: a token, or a browser's session."""

import pytest
from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest
from django.middleware.csrf import get_token
from django.test import RequestFactory

from accounts import http, operations
from accounts.errors import CsrfFailed, InsufficientScope, MembersOnly
from tests.accounts.integration import people

pytestmark = pytest.mark.django_db


def call(method: str = "GET", *, user: User | None = None, authorization: str | None = None) -> HttpRequest:
    """A request as it reaches the API, with CSRF checks on."""
    headers = {"Authorization": authorization} if authorization is not None else {}
    request = RequestFactory(enforce_csrf_checks=True).generic(method, "/api/v1/jobs", headers=headers)
    request.user = user or AnonymousUser()
    return request


def answer_of(request: HttpRequest) -> User | None:
    """Whom the API takes the caller for: the first way in that knows."""
    return next((person for way in http.callers("read") if (person := way(request))), None)


class TestTokenAuth:
    @pytest.mark.parametrize("form", ["Bearer {}", "bearer {}", "BEARER  {} "])
    def test_knows_the_person_by_the_key(self, ada: User, form: str) -> None:
        _, key = operations.create_token(ada, name="ci")
        request = call("POST", authorization=form.format(key))
        assert answer_of(request) == ada

    @pytest.mark.parametrize(
        "header", [None, "", "Bearer", "Bearer ", "Bearer x", "Basic YTpi", "jft_x", "Bearer \xff\x80"]
    )
    def test_knows_nobody_by_anything_else(self, ada: User, header: str | None) -> None:
        assert answer_of(call("POST", authorization=header)) is None

    def test_knows_nobody_by_a_key_without_its_scheme(self, ada: User) -> None:
        _, key = operations.create_token(ada, name="ci")
        assert answer_of(call(authorization=key)) is None

    def test_refuses_a_key_that_was_made_for_something_else(self, ada: User) -> None:
        _, key = operations.create_token(ada, name="ci", scopes=["submit"])
        with pytest.raises(InsufficientScope, match="may not read: it was made for submit alone"):
            answer_of(call(authorization=f"Bearer {key}"))


class TestSessionAuth:
    def test_knows_who_is_logged_in_and_only_reads(self, ada: User) -> None:
        assert answer_of(call(user=ada)) == ada

    def test_refuses_a_change_without_the_csrf_token(self, ada: User) -> None:
        """Another site could have sent it through this person's browser."""
        with pytest.raises(CsrfFailed):
            answer_of(call("POST", user=ada))

    def test_takes_a_change_with_the_csrf_token(self, ada: User) -> None:
        request = call("POST", user=ada)
        token = get_token(request)
        request.META["HTTP_X_CSRFTOKEN"] = token
        request.COOKIES["csrftoken"] = request.META["CSRF_COOKIE"]
        assert answer_of(request) == ada

    def test_lets_a_guest_look_and_change_nothing(self) -> None:
        guest = people.guest()
        assert answer_of(call(user=guest)) == guest
        request = call("POST", user=guest)
        request.META["HTTP_X_CSRFTOKEN"] = get_token(request)
        request.COOKIES["csrftoken"] = request.META["CSRF_COOKIE"]
        with pytest.raises(MembersOnly):
            answer_of(request)

    def test_says_unknown_and_not_forbidden_to_a_change_without_any_key(self) -> None:
        assert answer_of(call("POST")) is None
