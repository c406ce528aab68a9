"""Second factors: a code after the password, used once; who must have one, and what is done for a lost device."""

import time
from urllib.parse import quote

import pytest
from allauth.mfa.models import Authenticator
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal import auth
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.management import call_command
from django.db import connection
from django.test import Client
from pytest_django import Settings

from accounts import operations
from accounts.models import AuditEvent
from jobfarm import health
from tests import farm
from tests.accounts.edges.test_login import log_in
from tests.accounts.integration import people

pytestmark = pytest.mark.django_db
CODE_PAGE = "/accounts/2fa/authenticate/"
SET_UP = "/accounts/2fa/set-up/"
SECRET = "JBSWY3DPEHPK3PXP"


def code(secret: str = SECRET, *, steps: int = 0) -> str:
    """What the app shows, so many steps of 30 s from now."""
    return str(auth.format_hotp_value(auth.hotp_value(secret, int(time.time()) // 30 + steps)))


def with_app(username: str = "ada") -> User:
    """Somebody with an authenticator app and recovery codes."""
    person = farm.user(username)
    with_secret(person)
    return person


def with_secret(person: User) -> None:
    sealed = Authenticator(user=person, type="totp", data={"secret": auth.encrypt(SECRET)})
    sealed.save()
    RecoveryCodes.activate(person)


class TestACode:
    def test_is_asked_for_after_the_password_and_before_there_is_a_session(self, client: Client) -> None:
        with_app()
        assert log_in(client, next="/accounts/groups/") == CODE_PAGE
        assert SESSION_KEY not in client.session
        answer = client.post(CODE_PAGE, {"code": code()})
        assert answer.headers["Location"] == "/accounts/groups/"
        assert SESSION_KEY in client.session

    def test_is_asked_for_after_a_one_time_link_too(self, client: Client) -> None:
        ada = with_app()
        assert client.post(operations.one_time_link(ada)).headers["Location"] == CODE_PAGE
        assert SESSION_KEY not in client.session

    def test_opens_nothing_a_second_time(self, client: Client) -> None:
        with_app()
        used = code()
        for browser, status in ((client, 302), (Client(), 200)):
            log_in(browser)
            assert browser.post(CODE_PAGE, {"code": used}).status_code == status

    def test_opens_nothing_a_second_time_however_many_other_things_are_remembered(self, client: Client) -> None:
        """Rates of addresses lie beside it, and anybody may come from many."""
        with_app()
        used = code()
        log_in(client)
        client.post(CODE_PAGE, {"code": used})
        with connection.cursor() as cursor:
            cursor.execute("INSERT INTO jobfarm_cache SELECT ':1:z' || n, '', now() + interval '1 hour' "
                           "FROM generate_series(1, 10000) AS n")  # fmt: skip
        other = Client()
        log_in(other)
        cache.set("more", 1)  # a third goes, from the front
        assert other.post(CODE_PAGE, {"code": used}).status_code == 200

    @pytest.mark.parametrize(("steps", "status"), [(-3, 200), (-1, 302), (1, 302), (3, 200)])
    def test_of_a_clock_that_is_a_little_wrong_is_good(self, client: Client, steps: int, status: int) -> None:
        with_app()
        log_in(client)
        assert client.post(CODE_PAGE, {"code": code(steps=steps)}).status_code == status

    def test_is_tried_ten_times_an_hour_whoever_tries(self, client: Client) -> None:
        with_app()
        with_app("bob")
        for number in range(10):
            stranger = Client(REMOTE_ADDR=f"10.0.0.{number}")
            log_in(stranger)
            assert "Incorrect code." in stranger.post(CODE_PAGE, {"code": "000000"}).text
        log_in(client)
        answer = client.post(CODE_PAGE, {"code": code()})
        assert "Too many wrong codes. Try again in an hour." in answer.text
        assert SESSION_KEY not in client.session
        log_in(client, login="bob")
        assert client.post(CODE_PAGE, {"code": code()}).status_code == 302

    def test_is_asked_of_a_guest_who_has_an_account(self, client: Client) -> None:
        people.come_as_guest(client)
        with_app()
        assert log_in(client) == CODE_PAGE
        assert client.post(CODE_PAGE, {"code": code()}).status_code == 302
        assert client.session[SESSION_KEY] == str(User.objects.get(username="ada").pk)

    def test_is_not_read_from_the_table(self) -> None:
        with_app()
        assert SECRET not in str(Authenticator.objects.values_list("data", flat=True))

    def test_of_recovery_is_good_once(self, client: Client) -> None:
        ada = with_app()
        recovery = RecoveryCodes.activate(ada).get_unused_codes()[0]
        for browser, status in ((client, 302), (Client(), 200)):
            log_in(browser)
            assert browser.post(CODE_PAGE, {"code": recovery}).status_code == status

    def test_that_was_sealed_under_another_key_lets_nobody_in_and_breaks_no_page(
        self, client: Client, caplog: pytest.LogCaptureFixture
    ) -> None:
        with_app()
        inside = Client()
        log_in(inside)
        inside.post(CODE_PAGE, {"code": code()})
        for row in Authenticator.objects.all():
            row.data = row.data | {name: "another key's" for name in ("secret", "seed") if name in row.data}
            row.save()
        log_in(client)
        for guess in (code(), "00000000"):
            assert client.post(CODE_PAGE, {"code": guess}).status_code == 200
        assert SESSION_KEY not in client.session
        assert "SECRET_KEY_FALLBACKS" in caplog.text
        assert inside.get("/accounts/2fa/").status_code == 200  # which counts the recovery codes

    def test_asks_nothing_of_programs_which_the_form_of_their_tokens_says(self, client: Client) -> None:
        ada = with_app()
        _, key = operations.create_token(ada, name="ci")
        client.force_login(ada)
        assert "they are asked for no second factor" in client.get("/accounts/").text
        client.logout()
        assert client.get("/api/v1/jobs", headers={"Authorization": f"Bearer {key}"}).status_code == 200


class TestSettingUp:
    def test_needs_the_password_again(self, client: Client) -> None:
        farm.user("ada")
        log_in(client)
        path = "/accounts/2fa/totp/activate/"
        assert client.get(path).headers["Location"] == f"/accounts/confirm/?next={quote(path, safe='')}"
        client.post(f"/accounts/confirm/?next={path}", {"password": farm.PASSWORD})
        secret = client.get(path).context["form"].secret
        client.post(path, {"code": code(secret)})
        assert {row.type for row in Authenticator.objects.all()} == {"totp", "recovery_codes"}

    def test_asks_nothing_of_who_has_no_password(self, client: Client) -> None:
        admin, _ = operations.ensure_administrator()
        client.post(operations.one_time_link(admin))
        assert client.get("/accounts/2fa/totp/activate/").status_code == 200


class TestWhoMust:
    @pytest.mark.parametrize(
        ("required", "is_staff", "leads_to"),
        [("none", True, "/"), ("staff", False, "/"), ("staff", True, SET_UP), ("all", False, SET_UP)],
    )
    def test_is_led_to_it_at_the_log_in(
        self, client: Client, settings: Settings, required: str, is_staff: bool, leads_to: str
    ) -> None:
        settings.MFA_REQUIRED = required
        User.objects.create_user("ada", password=farm.PASSWORD, is_staff=is_staff)
        assert log_in(client) == leads_to

    def test_is_in_when_it_is_set_up_and_not_before(self, client: Client, settings: Settings) -> None:
        settings.MFA_REQUIRED = "all"
        farm.user("ada")
        log_in(client)
        assert client.get("/accounts/").status_code == 302
        secret = client.get(SET_UP).context["form"].secret
        assert client.post(SET_UP, {"code": "000000"}).status_code == 200
        secret = client.get(SET_UP).context["form"].secret
        answer = client.post(SET_UP, {"code": code(secret)}, follow=True)
        assert answer.redirect_chain == [("/accounts/2fa/recovery-codes/", 302)]  # which ask nothing again
        assert client.get("/accounts/").status_code == 200

    def test_opens_that_page_to_nobody_else(self, client: Client) -> None:
        assert client.get(SET_UP).headers["Location"] == "/accounts/login/"

    def test_keeps_the_last_one(self, client: Client, settings: Settings) -> None:
        settings.MFA_REQUIRED = "all"
        with_app()
        log_in(client)
        client.post(CODE_PAGE, {"code": code()})
        path = "/accounts/2fa/totp/deactivate/"
        client.post(f"/accounts/confirm/?next={path}", {"password": farm.PASSWORD})
        client.post(path)
        assert Authenticator.objects.filter(type="totp").exists()

    def test_is_led_to_it_as_a_guest_who_signs_up(self, client: Client, settings: Settings) -> None:
        settings.MFA_REQUIRED = "all"
        people.come_as_guest(client)
        fields = {"username": "eve", "password1": farm.PASSWORD, "password2": farm.PASSWORD}
        assert client.post("/accounts/sign-up/", fields).headers["Location"] == SET_UP
        assert client.get("/accounts/groups/").status_code == 302
        secret = client.get(SET_UP).context["form"].secret
        assert client.post(SET_UP, {"code": code(secret)}).status_code == 302
        assert client.get("/accounts/groups/").status_code == 200
        assert not AuditEvent.objects.filter(event="log_out").exists()

    def test_is_no_guest(self, client: Client, settings: Settings) -> None:
        settings.MFA_REQUIRED = "all"
        assert people.come_as_guest(client) == "/"


class TestPages:
    def test_say_log_in_as_all_others_do(self, client: Client) -> None:
        with_app()
        log_in(client)
        page = client.get(CODE_PAGE).text
        assert ("Log in" in page, "Sign In" in page) == (True, False)

    @pytest.mark.parametrize("page", ["", "totp/activate/", "webauthn/", "webauthn/add/", "recovery-codes/generate/"])
    def test_ask_a_guest_to_sign_up(self, client: Client, page: str) -> None:
        people.come_as_guest(client)
        answer = client.get(f"/accounts/2fa/{page}")
        assert (answer.status_code, "Sign up" in answer.text) == (403, True)


class TestAnotherSecretKey:
    def test_is_named_by_the_doctor_with_whom_it_shuts_out(self, settings: Settings) -> None:
        with_app("ada")
        assert list(health._second_factors()) == []
        settings.SECRET_KEY = "another one, as long as a secret key should be, for whoever asks"
        with_app("bob")
        [finding] = health._second_factors()
        assert "no code of theirs fits: 1." in finding.sentence
        assert finding.remedy.endswith("Users. ada")


class TestALostDevice:
    def test_is_an_administrators_act_with_a_line_in_the_log(self, client: Client) -> None:
        ada, boss = with_app(), User.objects.create_superuser("boss", password=farm.PASSWORD)
        client.force_login(boss)
        chosen = {"action": "forget_second_factors", "_selected_action": [ada.pk]}
        question = client.post("/admin/auth/user/", chosen)
        assert (
            "Let these users in without second factors (a lost device)?" in question.text,
            Authenticator.objects.count(),
        ) == (True, 2)
        client.post("/admin/auth/user/", {**chosen, "confirmed": "yes"})
        assert not Authenticator.objects.exists()
        line = AuditEvent.objects.get(event="second_factor_removed")
        assert (line.by, line.person, line.detail) == (boss, ada, "all, of a lost device")
        assert log_in(Client()) == "/"

    def test_is_helped_from_the_farms_machine_too(self, client: Client, capsys: pytest.CaptureFixture[str]) -> None:
        with_app()
        call_command("login_link", "ada", "--without-second-factor")
        printed = capsys.readouterr()
        assert "Took the second factors of ada away." in printed.err
        link = printed.out.strip().splitlines()[-1]
        assert client.post(link.removeprefix("http://127.0.0.1:8000")).headers["Location"] == "/"
