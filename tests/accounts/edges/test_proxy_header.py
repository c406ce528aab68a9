"""An authenticating proxy in front: whom its header lets in, from where, and what becomes of groups and sessions."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import httpx
import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session

from accounts.models import AuditEvent
from tests import farm
from tests.servers import Server, serve

pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/accounts/login/?next=/accounts/"
Browser = Callable[..., httpx.Client]


@pytest.fixture
def node(transactional_db: None) -> Iterator[Server]:
    with serve(
        FORWARDED_ALLOW_IPS="127.0.0.1", REMOTE_USER_HEADER="X-Forwarded-User",
        REMOTE_EMAIL_HEADER="X-Forwarded-Email", REMOTE_GROUPS_HEADER="X-Forwarded-Groups",
        REMOTE_USER_LOGOUT_URL="/oauth2/sign_out", OIDC_GROUP_MAP="ml-team:operators,heads:staff",
    ) as server:  # fmt: skip
        yield server


@pytest.fixture
def browser(node: Server) -> Iterator[Browser]:
    """What the proxy at this address hands on of somebody's browser."""
    with ExitStack() as opened:

        def new(name: str, *, at: str = "127.0.0.1", **more: str) -> httpx.Client:
            headers = {f"X-Forwarded-{key}": value for key, value in {"User": name, **more}.items()}
            transport = httpx.HTTPTransport(local_address=at)
            return opened.enter_context(httpx.Client(base_url=node.url, headers=headers, transport=transport))

        yield new


def is_in(client: httpx.Client) -> bool:
    return client.get("/accounts/").status_code == 200


class TestATrustedProxy:
    def test_lets_in_whom_it_names_and_its_groups_are_followed(self, browser: Browser) -> None:
        somebody = browser("ada", Email="ada@example.com", Groups="ml-team, others", For="192.0.2.7")
        assert somebody.get(PAGE).headers["location"] == "/accounts/"
        assert is_in(somebody)
        ada = User.objects.get(username="ada")
        assert (ada.email, ada.has_usable_password(), ada.is_staff) == ("ada@example.com", False, False)
        assert list(ada.groups.values_list("name", flat=True)) == ["operators"]
        line = AuditEvent.objects.get(event="log_in")
        assert (line.person, line.detail, line.address) == (ada, "header", "192.0.2.7")
        browser("Ada", Groups="heads").get(PAGE)
        ada.refresh_from_db()
        assert (User.objects.count(), ada.is_staff, ada.groups.exists()) == (1, True, False)

    def test_lets_in_without_an_address_that_is_none(self, browser: Browser) -> None:
        for name, address in (("ada", "x" * 300 + "@example.com"), ("eve", "none")):
            assert browser(name, Email=address).get(PAGE).status_code == 302
        assert set(User.objects.values_list("username", "email")) == {("ada", ""), ("eve", "")}

    def test_leads_to_no_other_site(self, browser: Browser) -> None:
        assert browser("ada").get("/accounts/login/?next=//evil.example/").headers["location"] == "/"

    def test_lets_in_nobody_under_the_farms_own_names_or_who_was_switched_off(self, browser: Browser) -> None:
        User.objects.create_superuser("admin")
        User.objects.create_user("bob", is_active=False)
        for name in ("admin", "ADMIN", "guest-1234", "bob", "a b", "x,y", "x" * 151, "x" * 300, ""):
            assert browser(name).get(PAGE).status_code == 200, name
        assert set(User.objects.values_list("username", flat=True)) == {"admin", "bob"}

    def test_lets_in_nobody_under_a_name_that_looks_like_anothers(self, browser: Browser) -> None:
        """A provider behind the proxy may have several names that Unicode folds into one of ours."""
        farm.user("ada")
        for name in ("\xaada", "\u0430da", "\uff41da", "ad\uff41"):
            somebody = browser("")
            for encoding in ("latin-1", "utf-8"):
                somebody.headers = httpx.Headers([(b"x-forwarded-user", name.encode(encoding, "replace"))])
                assert (somebody.get(PAGE).status_code, is_in(somebody)) == (200, False), (name, encoding)

    def test_lets_in_nobody_by_two_headers_or_another_spelling_of_its_name(self, browser: Browser) -> None:
        farm.user("ada")
        somebody = browser("")
        for headers in (
            [("X-Forwarded-User", "ada"), ("X-Forwarded-User", "eve")],
            [("X-Forwarded-User", ""), ("X-Forwarded-User", "ada")],
            [("X_Forwarded_User", "ada")],
            [("X-Forwarded_User", "ada")],
        ):
            somebody.headers = httpx.Headers(headers)
            assert (somebody.get(PAGE).status_code, is_in(somebody)) == (200, False), headers

    def test_begins_a_new_session(self, browser: Browser) -> None:
        planted = SessionStore()
        planted.create()
        somebody = browser("ada")
        somebody.cookies["sessionid"] = str(planted.session_key)
        somebody.get(PAGE)
        assert not Session.objects.filter(session_key=planted.session_key).exists()

    def test_ends_a_session_where_it_names_somebody_else(self, browser: Browser) -> None:
        somebody = browser("ada")
        somebody.get(PAGE)
        somebody.headers["X-Forwarded-User"] = "eve"
        assert not is_in(somebody)
        somebody.get(PAGE)
        assert is_in(somebody)

    def test_has_the_log_out(self, browser: Browser) -> None:
        somebody = browser("ada")
        somebody.get(PAGE)
        somebody.get("/accounts/")
        answer = somebody.post("/accounts/logout/", headers={"X-CSRFToken": somebody.cookies["csrftoken"]})
        assert answer.headers["location"] == "/oauth2/sign_out"
        assert not is_in(somebody)


class TestAnybodyElse:
    def test_is_not_believed_and_that_is_noted_but_not_without_end(self, browser: Browser) -> None:
        farm.user("ada")
        for forwarded in ("127.0.0.1", "192.0.2.7"):
            stranger = browser("ada", at="127.0.0.2", Groups="ml-team", For=forwarded)
            assert (stranger.get(PAGE).status_code, is_in(stranger)) == (200, False)
        lines = AuditEvent.objects.filter(event="log_in_failed")
        assert set(lines.values_list("address", "detail")) == {("127.0.0.2", "header of no trusted proxy")}
        for _ in range(40):
            stranger.get(PAGE)
        assert lines.count() == 30
