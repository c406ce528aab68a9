"""What people are sent by mail: a link to a new password, and one that proves whose an address is."""

import re
import time

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client
from pytest_django import Settings

from tests import farm
from tests.accounts.edges.test_sign_up import GIVEN

pytestmark = pytest.mark.django_db
RESET = "/accounts/password/reset/"
NEW = {"password1": "a staple and a battery", "password2": "a staple and a battery"}


@pytest.fixture(autouse=True)
def _with_a_mail_server(settings: Settings) -> None:
    settings.HAS_MAIL_SERVER = True
    settings.ACCOUNT_EMAIL_VERIFICATION = "optional"


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada", "ada@example.com", farm.PASSWORD)


def link(number: int = -1) -> str:
    """The address in a mail."""
    [path] = re.findall(r"http://testserver(/accounts/\S+)", str(mail.outbox[number].body))[:1]
    return str(path)


class TestANewPassword:
    def test_is_set_by_who_reads_the_mail_and_ends_all_sessions(self, client: Client, ada: User) -> None:
        elsewhere = Client()
        elsewhere.force_login(ada)
        assert client.post(RESET, {"email": "Ada@Example.com"}).headers["Location"] == f"{RESET}sent/"
        page = client.get(link(), follow=True)
        assert page.status_code == 200
        client.post(page.redirect_chain[-1][0], NEW)
        ada.refresh_from_db()
        assert ada.check_password(NEW["password1"])
        assert elsewhere.get("/accounts/").status_code == 302

    def test_is_set_once_by_one_link(self, client: Client, ada: User) -> None:
        client.post(RESET, {"email": "ada@example.com"})
        first = client.get(link(), follow=True)
        client.post(first.redirect_chain[-1][0], NEW)
        again = Client().get(link(0), follow=True)
        assert "password1" not in again.text

    def test_does_not_show_its_key_in_the_address_of_the_form(self, client: Client, ada: User) -> None:
        client.post(RESET, {"email": "ada@example.com"})
        assert client.get(link(), follow=True).redirect_chain[-1][0].endswith("-set-password/")

    def test_is_answered_alike_for_an_address_that_nobody_has(self, client: Client, ada: User) -> None:
        answers = [client.post(RESET, {"email": email}) for email in ("ada@example.com", "eve@example.com")]
        assert {(answer.status_code, answer.headers["Location"]) for answer in answers} == {(302, f"{RESET}sent/")}
        assert [message.to for message in mail.outbox] == [["ada@example.com"], ["eve@example.com"]]
        assert "/password/reset/" not in str(mail.outbox[1].body)

    def test_is_answered_also_while_the_mail_server_is_away(
        self, client: Client, ada: User, settings: Settings, caplog: pytest.LogCaptureFixture
    ) -> None:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
        assert client.post(RESET, {"email": "ada@example.com"}).status_code == 302
        assert "A mail could not be sent: account/email/password_reset_key" in caplog.text

    def test_is_mailed_to_an_address_five_times_an_hour(self, ada: User, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each link is good: who is sent five by a stranger is shut out by none."""
        now = time.time()
        for minute in range(10):
            monkeypatch.setattr("allauth.core.internal.ratelimit.time.time", lambda minute=minute: now + 60 * minute)
            Client(REMOTE_ADDR=f"10.0.0.{minute}").post(RESET, {"email": "ada@example.com"})
        assert len(mail.outbox) == 5

    def test_is_not_offered_where_the_farm_sends_no_mail(self, client: Client, settings: Settings) -> None:
        settings.HAS_MAIL_SERVER = False
        assert "the command login_link" in client.get(RESET).text
        assert client.post(RESET, {"email": "ada@example.com"}).status_code == 403
        assert mail.outbox == []


class TestAnAddress:
    def test_is_proved_by_the_link_that_sign_up_sends(self, client: Client) -> None:
        client.post("/accounts/sign-up/", GIVEN | {"email": "ada@example.com"})
        assert EmailAddress.objects.get().verified is False
        page = client.get(link())
        assert page.status_code == 200
        client.post(link())
        assert EmailAddress.objects.get().verified is True

    def test_that_somebody_has_is_taken_without_a_word_of_it(self, client: Client, ada: User) -> None:
        EmailAddress.objects.create(user=ada, email="ada@example.com", verified=True, primary=True)
        answer = client.post("/accounts/sign-up/", GIVEN | {"username": "eve", "email": "ada@example.com"})
        assert answer.status_code == 302
        assert User.objects.filter(username="eve").exists()
        assert not EmailAddress.objects.filter(user__username="eve", verified=True).exists()

    def test_is_not_said_to_get_a_mail_where_the_farm_sends_none(
        self, client: Client, ada: User, settings: Settings
    ) -> None:
        settings.HAS_MAIL_SERVER = False
        client.force_login(ada)
        client.post("/accounts/confirm/", {"password": farm.PASSWORD})
        answer = client.post("/accounts/email/", {"action_add": "", "email": "new@example.com"}, follow=True)
        assert "This farm sends no mail: the address stays unverified." in answer.text
        assert "sent to new@example.com" not in answer.text

    def test_is_added_and_taken_away_on_its_page(self, client: Client, ada: User) -> None:
        client.force_login(ada)
        client.post("/accounts/confirm/", {"password": farm.PASSWORD})
        client.post("/accounts/email/", {"action_add": "", "email": "new@example.com"})
        assert "new@example.com" in client.get("/accounts/email/").text
        client.post("/accounts/email/", {"action_remove": "", "email": "new@example.com"})
        assert "new@example.com" not in EmailAddress.objects.values_list("email", flat=True)
