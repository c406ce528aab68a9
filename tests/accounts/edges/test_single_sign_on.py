"""Single sign-on at an OpenID provider: who comes in, what their claims give and take, and what attackers get."""

from collections.abc import Iterator

import httpx
import pytest
from allauth.account.models import EmailAddress
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.test import Client
from pytest_django import Settings

from accounts import operations
from accounts.models import AuditEvent, MemberGroup
from jobs import operations as jobs
from tests import farm
from tests.accounts.edges import provider as providers
from tests.accounts.edges.provider import Provider, path_of
from tests.accounts.edges.test_login import ELSEWHERE, log_in
from tests.accounts.edges.test_second_factors import with_secret
from tests.accounts.integration import people
from tests.outbox.support import endpoint

pytestmark = pytest.mark.django_db
ADA = {"preferred_username": "ada", "email": "ada@example.com", "email_verified": True, "groups": ["ml-team"]}


@pytest.fixture(scope="module")
def process() -> Iterator[Provider]:
    with providers.running() as running:
        yield running


@pytest.fixture
def provider(process: Provider, settings: Settings) -> Provider:
    """The provider, to which this farm is tied."""
    tie(settings, process.url)
    process.knows("1", **ADA)
    return process


def tie(settings: Settings, url: str, **more: object) -> None:
    app = {"provider_id": "sso", "name": "Team", "client_id": "farm", "secret": "s3cret"}
    app["settings"] = {"server_url": url, **more}  # type: ignore[assignment]
    settings.SOCIALACCOUNT_PROVIDERS = {"openid_connect": {"APPS": [app]}}
    settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID = url, "farm"
    settings.OIDC_GROUP_MAP = [("ml-team", "operators"), ("heads", "staff")]


def come(provider: Provider, client: Client | None = None, sub: str = "1", page: str = "/") -> Client:
    browser = client or Client()
    back = provider.lets_in(browser, sub, page=page)
    browser.get(path_of(back.headers["Location"]))
    return browser


def begun(browser: Client, more: str = "") -> str:
    """Where a log-in that was begun leads, at the provider."""
    return browser.post(f"/accounts/oidc/sso/login/?process=login{more}").headers["Location"]


def nonce(start: str) -> str:
    return start.partition("nonce=")[2].partition("&")[0]


def status_of(key: str) -> int:
    """What the API answers to this token."""
    return Client().get("/api/v1/jobs", headers={"Authorization": f"Bearer {key}"}).status_code


def groups(name: str = "ada") -> list[str]:
    return [group.name for group in User.objects.get(username=name).groups.all()]


class TestComingIn:
    def test_is_by_a_code_with_a_proof_key_and_a_nonce_of_this_log_in(self, client: Client, provider: Provider) -> None:
        starts = [begun(client), begun(client, "&auth_params=nonce%3Dchosen")]
        for start in starts:
            assert start.startswith(f"{provider.url}/oauth2/authorize?")
            assert ("code_challenge_method=S256" in start, "response_type=code" in start) == (True, True)
        assert len({"", "chosen", *(nonce(start) for start in starts)}) == 4

    def test_makes_an_account_also_where_nobody_signs_up(
        self, client: Client, provider: Provider, settings: Settings
    ) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "SIGN_UP": False}
        come(provider, client)
        person = User.objects.get()
        assert (person.username, person.email, person.has_usable_password()) == ("ada", "ada@example.com", False)
        assert client.session[SESSION_KEY] == str(person.pk)
        assert groups() == ["operators"]

    def test_at_a_site_that_is_not_the_teams_is_a_sign_up(
        self, client: Client, provider: Provider, settings: Settings
    ) -> None:
        apps = settings.SOCIALACCOUNT_PROVIDERS["openid_connect"]["APPS"]
        apps[0]["provider_id"] = "elsewhere"
        for may_sign_up in (False, True):
            settings.JOBFARM = {**settings.JOBFARM, "SIGN_UP": may_sign_up}
            start = client.post("/accounts/oidc/elsewhere/login/?process=login").headers["Location"]
            back = httpx.post(start, data={"sub": "1"}).headers["Location"]
            client.get(path_of(back))
            assert (SESSION_KEY in client.session, User.objects.exists()) == (may_sign_up, may_sign_up)
        assert not User.objects.get().groups.exists()

    def test_leads_on_to_a_page_of_this_site_alone(self, client: Client, provider: Provider) -> None:
        for page in ("/accounts/groups/", *ELSEWHERE):
            browser = Client()
            back = provider.lets_in(browser, "1", page=page)
            location = browser.get(path_of(back.headers["Location"])).headers["Location"]
            assert location == (page if page.startswith("/accounts/") else "/")

    def test_gives_another_name_where_somebody_has_that_one(self, provider: Provider) -> None:
        farm.user("ada")
        browser = come(provider)
        person = User.objects.get(pk=browser.session[SESSION_KEY])
        assert (person.username != "ada", User.objects.count()) == (True, 2)

    def test_does_without_a_page_for_claims(self, provider: Provider, settings: Settings) -> None:
        for says_so in ({"fetch_userinfo": False}, {"openid_configuration_overrides": {"userinfo_endpoint": None}}):
            Group.objects.filter(name="operators").delete()
            tie(settings, provider.url, **says_so)
            come(provider)
            assert groups() == ["operators"]

    def test_lasts_an_hour_however_much_is_done_in_it(self, provider: Provider) -> None:
        browser = come(provider)
        assert browser.session.get_expiry_age() <= 3600
        until = Session.objects.values_list("expire_date", flat=True)
        ends = until.get()
        assert browser.get("/accounts/2fa/totp/activate/").status_code == 200  # which keeps a secret in the session
        assert until.get() == ends

    def test_is_offered_on_the_log_in_page(self, client: Client, provider: Provider) -> None:
        assert "Log in with Team" in client.get("/accounts/login/").text
        policy = client.get("/accounts/login/").headers["Content-Security-Policy"]
        assert f"form-action 'self' {provider.url};" in policy


class TestClaims:
    def test_give_and_take_at_each_log_in(self, provider: Provider) -> None:
        come(provider)
        User.objects.get().groups.add(Group.objects.create(name="painters"))
        provider.knows("1", **ADA | {"groups": ["heads"]})
        come(provider)
        assert (groups(), User.objects.get().is_staff) == (["painters"], True)
        provider.knows("1", **ADA | {"groups": []})
        come(provider)
        assert (groups(), User.objects.get().is_staff) == (["painters"], False)

    @pytest.mark.parametrize("claim", [7, True, None, [["ml-team"]], "ml-team x"])
    def test_of_another_form_let_in_all_the_same(self, provider: Provider, claim: object) -> None:
        provider.knows("1", **ADA | {"groups": claim})
        come(provider)
        assert groups() == (["operators"] if isinstance(claim, str) else [])

    @pytest.mark.parametrize(
        ("claims", "name"),
        [
            ({"preferred_username": 4711}, "4711"),
            ({"preferred_username": ["ada"], "name": {"x": 1}, "given_name": 7, "family_name": True}, "7"),
            ({"preferred_username": "x" * 300, "given_name": "y" * 300}, "x" * 150),
            ({"email": 7}, "ada"),
            ({"email": f"{'x' * 300}@example.com"}, "ada"),
        ],
    )
    def test_that_are_no_texts_are_texts_or_none(
        self, client: Client, provider: Provider, claims: dict[str, object], name: str
    ) -> None:
        provider.knows("1", **ADA | claims)
        come(provider, client)
        assert (User.objects.get().username, SESSION_KEY in client.session) == (name, True)

    @pytest.mark.parametrize("claim", ["preferred_username", "name", "picture", "groups"])
    def test_that_no_row_can_hold_let_nobody_in(self, client: Client, provider: Provider, claim: str) -> None:
        provider.knows("1", **ADA | {claim: "a\x00b"})
        back = path_of(provider.lets_in(client, "1").headers["Location"])
        assert (client.get(back).status_code, SESSION_KEY in client.session) == (401, False)
        assert "NUL" in AuditEvent.objects.get(event="log_in_failed").detail

    def test_of_nobody_let_nobody_in(self, client: Client, provider: Provider) -> None:
        long = "1" * 300
        provider.knows(long, **ADA)
        back = path_of(provider.lets_in(client, long).headers["Location"])
        assert (client.get(back).status_code, SESSION_KEY in client.session) == (401, False)

    def test_put_nobody_into_a_group_that_members_made(self, provider: Provider) -> None:
        eve = farm.user("eve")
        group = Group.objects.create(name="operators")
        MemberGroup.objects.create(group=group, maker=eve)
        come(provider)
        assert groups() == []


class TestAnAddressThatSomebodyHas:
    def test_is_theirs_if_the_provider_says_so(self, provider: Provider) -> None:
        old = User.objects.create_user("countess", "ada@example.com", farm.PASSWORD)
        EmailAddress.objects.create(user=old, email="ada@example.com", verified=True, primary=True)
        assert come(provider).session[SESSION_KEY] == str(old.pk)
        old.refresh_from_db()
        assert old.check_password(farm.PASSWORD)

    def test_is_not_if_the_provider_does_not(self, provider: Provider) -> None:
        old = User.objects.create_user("countess", "ada@example.com", farm.PASSWORD)
        EmailAddress.objects.create(user=old, email="ada@example.com", verified=True, primary=True)
        provider.knows("1", **ADA | {"email_verified": False})
        assert come(provider).session.get(SESSION_KEY) != str(old.pk)

    def test_opens_nothing_to_who_wrote_it_into_an_account_before(self, provider: Provider) -> None:
        trap = User.objects.create_user("trap", "ada@example.com", farm.PASSWORD)
        with_secret(trap)
        _, key = operations.create_token(trap, name="trap")
        link = operations.one_time_link(trap)
        worker, hook = farm.worker("trap", owner=trap), endpoint(owner=trap)
        _, view = jobs.create_view_token(by=trap, tag="nightly", expires_in_s=900)
        assert come(provider).session[SESSION_KEY] == str(trap.pk)
        trap.refresh_from_db()
        assert (trap.check_password(farm.PASSWORD), Authenticator.objects.count()) == (False, 0)
        assert status_of(key) == 401
        assert Client().get("/api/v1/jobs", {"token": view}).status_code == 401
        assert Client().post(link).status_code == 410
        worker.refresh_from_db()
        hook.refresh_from_db()
        assert (worker.revoked_at is None, hook.status) == (False, "disabled")

    def test_that_was_proved_here_keeps_its_tokens_and_second_factors(self, provider: Provider) -> None:
        old = User.objects.create_user("countess", "ada@example.com", farm.PASSWORD)
        EmailAddress.objects.create(user=old, email="ada@example.com", verified=True, primary=True)
        with_secret(old)
        _, key = operations.create_token(old, name="ci")
        come(provider)
        assert (status_of(key), Authenticator.objects.count()) == (200, 2)


class TestAnotherIssuer:
    def test_gives_nobody_the_account_of_who_had_the_same_number_before(
        self, provider: Provider, settings: Settings
    ) -> None:
        come(provider)
        come(provider)
        ada = User.objects.get()
        with providers.running() as other:
            tie(settings, other.url)
            other.knows("1", preferred_username="eve", email="eve@example.com", email_verified=True)
            assert come(other).session[SESSION_KEY] != str(ada.pk)
            other.knows("2", **ADA)
            assert come(other, sub="2").session[SESSION_KEY] == str(ada.pk)
        assert User.objects.count() == 2


class TestAGuest:
    def test_ties_no_account_of_the_provider_to_the_visit(self, client: Client, provider: Provider) -> None:
        people.come_as_guest(client)
        start = client.post("/accounts/oidc/sso/login/?process=connect&next=/")
        back = httpx.post(start.headers["Location"], data={"sub": "1"})
        assert client.get(path_of(back.headers["Location"])).status_code == 403
        assert not SocialAccount.objects.exists()


class TestAttacks:
    def test_an_answer_for_another_browser_lets_nobody_in(self, client: Client, provider: Provider) -> None:
        back = provider.lets_in(Client(), "1")
        answer = client.get(path_of(back.headers["Location"]))
        assert (answer.status_code, SESSION_KEY in client.session) == (401, False)

    def test_an_answer_lets_in_once(self, client: Client, provider: Provider) -> None:
        back = path_of(provider.lets_in(client, "1").headers["Location"])
        client.get(back)
        client.post("/accounts/logout/")
        assert (client.get(back).status_code, SESSION_KEY in client.session) == (401, False)

    def test_an_answer_that_was_made_up_lets_nobody_in(self, client: Client, provider: Provider) -> None:
        state = path_of(provider.lets_in(client, "1").headers["Location"]).partition("state=")[2]
        answer = client.get(f"/accounts/oidc/sso/login/callback/?code=made-up&state={state}")
        assert (answer.status_code, SESSION_KEY in client.session) == (401, False)

    def test_a_code_that_was_stolen_lets_nobody_in(self, client: Client, provider: Provider) -> None:
        """Its finder has begun a log-in too, so the state is right; the proof key is another browser's."""
        stolen = path_of(provider.lets_in(Client(), "1").headers["Location"]).partition("code=")[2].partition("&")[0]
        state = path_of(provider.lets_in(client, "1").headers["Location"]).partition("state=")[2]
        answer = client.get(f"/accounts/oidc/sso/login/callback/?code={stolen}&state={state}")
        assert (answer.status_code, SESSION_KEY in client.session) == (401, False)

    def test_a_token_of_another_log_in_lets_nobody_in(self, client: Client, provider: Provider) -> None:
        """State, code and proof key are those of this log-in; its nonce is not, or it has none."""
        other = nonce(begun(Client()))
        for planted in (f"nonce={other}", "none="):
            start = begun(client)
            back = httpx.post(start.replace(f"nonce={nonce(start)}", planted), data={"sub": "1"}).headers["Location"]
            answer = client.get(path_of(back))
            assert (answer.status_code, SESSION_KEY in client.session) == (401, False)
        assert AuditEvent.objects.filter(detail="single sign-on: an answer to another log-in").count() == 2

    def test_a_token_that_the_provider_gave_before_lets_nobody_in(self, client: Client, provider: Provider) -> None:
        come(provider)
        provider.knows("1", **ADA, replays=True)
        back = path_of(provider.lets_in(client, "1").headers["Location"])
        assert (client.get(back).status_code, SESSION_KEY in client.session) == (401, False)

    def test_claims_of_somebody_else_than_the_token_names_let_nobody_in(
        self, client: Client, provider: Provider
    ) -> None:
        come(provider)
        provider.knows("2", **ADA, userinfo_sub="1")
        back = path_of(provider.lets_in(client, "2").headers["Location"])
        assert (client.get(back).status_code, SESSION_KEY in client.session) == (401, False)

    def test_an_answer_is_the_end_of_the_session_before(self, client: Client, provider: Provider) -> None:
        client.get("/accounts/login/")
        back = path_of(provider.lets_in(client, "1").headers["Location"])
        before = client.session.session_key
        client.get(back)
        assert (SESSION_KEY in client.session, client.session.session_key == before) == (True, False)

    def test_a_log_in_is_begun_by_a_form_of_this_site_alone(self, provider: Provider) -> None:
        assert Client(enforce_csrf_checks=True).post("/accounts/oidc/sso/login/").status_code == 403


class TestAProviderThatIsAway:
    def test_is_said_and_a_link_still_lets_in(self, client: Client, provider: Provider, settings: Settings) -> None:
        tie(settings, "http://127.0.0.1:1")
        answer = client.post("/accounts/oidc/sso/login/")
        assert (answer.status_code, "login_link USER" in answer.text) == (503, True)
        assert client.post(operations.one_time_link(farm.user("boss"))).headers["Location"] == "/"

    def test_in_the_middle_is_said_too(self, client: Client, provider: Provider, settings: Settings) -> None:
        back = provider.lets_in(client, "1")
        tie(settings, "http://127.0.0.1:1")
        answer = client.get(path_of(back.headers["Location"]))
        assert (answer.status_code, SESSION_KEY in client.session) == (503, False)


class TestClocks:
    @pytest.mark.parametrize(("ahead_s", "lets_in"), [(-60, True), (60, True), (-3600, False), (3600, False)])
    def test_may_differ_a_little(self, settings: Settings, client: Client, ahead_s: float, lets_in: bool) -> None:
        with providers.running(ahead_s=ahead_s) as provider:
            tie(settings, provider.url)
            provider.knows("1", **ADA)
            back = provider.lets_in(client, "1")
            answer = client.get(path_of(back.headers["Location"]))
        assert (SESSION_KEY in client.session, answer.status_code) == ((True, 302) if lets_in else (False, 401))


class TestTheLogOut:
    def test_ends_both(self, provider: Provider) -> None:
        location = come(provider).post("/accounts/logout/").headers["Location"]
        assert location.startswith(f"{provider.url}/oauth2/end_session?client_id=farm&post_logout_redirect_uri=")

    def test_ends_this_one_while_the_provider_is_away(self, provider: Provider, settings: Settings) -> None:
        browser = come(provider)
        tie(settings, "http://127.0.0.1:1")
        assert browser.post("/accounts/logout/").headers["Location"] == "/accounts/login/"
        assert SESSION_KEY not in browser.session

    def test_of_who_came_by_password_asks_the_provider_nothing(self, client: Client, provider: Provider) -> None:
        farm.user("bob")
        client.post("/accounts/login/", {"login": "bob", "password": farm.PASSWORD})
        assert client.post("/accounts/logout/").headers["Location"] == "/accounts/login/"


class TestSingleSignOnAlone:
    @pytest.fixture(autouse=True)
    def _alone(self, settings: Settings) -> None:
        settings.SSO_ONLY = True

    def test_takes_no_password(self, client: Client, ada: User) -> None:
        assert log_in(client) == ""
        answer = client.post("/accounts/login/", {"login": "ada", "password": farm.PASSWORD})
        assert (answer.status_code, SESSION_KEY in client.session) == (403, False)
        assert 'type="password"' not in client.get("/accounts/login/").text

    def test_has_no_sign_up_and_no_new_password(self, client: Client) -> None:
        assert client.get("/accounts/sign-up/").status_code == 403
        assert client.post("/accounts/password/reset/", {"email": "ada@example.com"}).status_code == 403

    def test_leaves_the_link_of_who_runs_the_farm(self, client: Client, ada: User) -> None:
        assert client.post(operations.one_time_link(ada)).headers["Location"] == "/"
