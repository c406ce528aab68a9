"""Guests: let in by a captcha, limited by their session, kept by signing up, seen off when their time is over."""

import runpy
import sys
from datetime import timedelta

import pytest
from captcha.models import CaptchaStore
from django.contrib.auth.models import AnonymousUser, Group, User
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client, RequestFactory
from pytest_django import Settings

from accounts import http, operations
from accounts.errors import CaptchaFailed, GuestsClosed, MembersOnly
from accounts.models import Guest
from accounts.operations import guests
from jobs import operations as jobs
from jobs.models import Job
from postgres import clock
from ratelimits import operations as ratelimits
from ratelimits.errors import RateLimited
from scheduling import operations as scheduling
from scheduling.models import Cron, ScheduledFunction
from scheduling.operations import crons
from tests import farm
from tests.accounts.integration import people
from tests.accounts.integration.people import HERE
from tests.jobs.limits.integration.sample import left

pytestmark = pytest.mark.django_db


class TestEnterAsGuest:
    def test_makes_somebody_who_can_come_in_no_other_way(self) -> None:
        guest = people.guest()
        row = Guest.objects.get()
        assert (row.user, len(row.session_id), row.retired_at) == (guest, 16, None)
        assert timedelta(days=29.9) < row.expires_at - clock.now() <= timedelta(days=30)
        assert guest.username.startswith("guest-")
        assert (guest.has_usable_password(), guest.is_staff, guest.is_superuser) == (False, False, False)
        assert operations.is_guest(guest)

    @pytest.mark.parametrize("how", ["lower", "spaced"])
    def test_takes_letters_as_people_type_them(self, how: str) -> None:
        captcha = operations.new_captcha(address=HERE)
        letters = people.solution(captcha)
        typed = letters.lower() if how == "lower" else f" {' '.join(letters)} "
        assert operations.is_guest(operations.enter_as_guest(captcha=captcha, letters=typed, address=HERE))

    def test_looks_at_one_answer_for_each_picture(self) -> None:
        captcha = operations.new_captcha(address=HERE)
        letters = people.solution(captcha)
        for answer in ("AAAAA", letters):
            with pytest.raises(CaptchaFailed):
                operations.enter_as_guest(captcha=captcha, letters=answer, address=HERE)
        people.guest()
        assert Guest.objects.count() == 1

    def test_does_not_take_a_picture_twice(self) -> None:
        captcha = operations.new_captcha(address=HERE)
        letters = people.solution(captcha)
        operations.enter_as_guest(captcha=captcha, letters=letters, address=HERE)
        with pytest.raises(CaptchaFailed):
            operations.enter_as_guest(captcha=captcha, letters=letters, address=HERE)

    def test_takes_no_picture_that_is_too_old(self) -> None:
        captcha = operations.new_captcha(address=HERE)
        letters = people.solution(captcha)
        soon = clock.now() + timedelta(minutes=10)
        assert abs(CaptchaStore.objects.get().expiration - soon) < timedelta(seconds=30)
        CaptchaStore.objects.update(expiration=clock.now())
        with pytest.raises(CaptchaFailed):
            operations.enter_as_guest(captcha=captcha, letters=letters, address=HERE)

    def test_needs_the_letters_of_this_picture(self) -> None:
        mine, other = (operations.new_captcha(address=HERE) for _ in range(2))
        for captcha, letters in ((mine, people.solution(other)), ("", ""), ("no such picture", "AAAAA")):
            with pytest.raises(CaptchaFailed):
                operations.enter_as_guest(captcha=captcha, letters=letters, address=HERE)

    def test_counts_answers_by_address_right_and_wrong(self) -> None:
        for _ in range(10):
            people.guest()
            with pytest.raises(CaptchaFailed):
                operations.enter_as_guest(captcha="none", letters="x", address=HERE)
        captcha = operations.new_captcha(address=HERE)
        with pytest.raises(RateLimited) as caught:
            operations.enter_as_guest(captcha=captcha, letters=people.solution(captcha), address=HERE)
        assert caught.value.name == "guests/captcha"
        assert CaptchaStore.objects.filter(hashkey=captcha).exists()
        assert operations.is_guest(people.guest(address="address:10.0.0.2"))

    def test_has_a_limit_for_the_whole_farm(self) -> None:
        ratelimits.limit("guests", count=200)
        with pytest.raises(RateLimited) as caught:
            people.guest()
        assert (caught.value.name, User.objects.count()) == ("guests", 0)

    def test_is_refused_where_guests_are_not_wanted(self, settings: Settings) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "GUESTS": False}
        with pytest.raises(GuestsClosed):
            people.guest()

    def test_finds_another_name_where_one_is_taken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        tokens = iter(["7f3a", "5e55" * 4, "7f3a", "7f3a", "c0ffee", "beef" * 4])
        monkeypatch.setattr("secrets.token_hex", lambda _: next(tokens))
        assert [people.guest().username for _ in range(2)] == ["guest-7f3a", "guest-c0ffee"]


class TestLimitKey:
    def test_is_the_session_of_a_guest_and_the_account_of_everybody_else(self) -> None:
        guest, ada = people.guest(), farm.user("ada")
        session = Guest.objects.get().session_id
        assert operations.limit_key(guest) == f"session:{session}"
        assert operations.limit_key(ada) == f"user:{ada.pk}"
        assert [operations.is_guest(who) for who in (guest, ada, AnonymousUser(), None)] == [
            *(True, False),
            *(False, False),
        ]

    def test_is_the_address_of_who_did_not_come_in(self) -> None:
        request = RequestFactory().get("/", REMOTE_ADDR="10.0.0.7")
        assert http.limit_key(request) == "address:10.0.0.7"
        request.user = AnonymousUser()
        assert http.limit_key(request) == "address:10.0.0.7"
        request.user = ada = farm.user("ada")
        assert http.limit_key(request) == f"user:{ada.pk}"
        request.auth = bob = farm.user("bob")  # type: ignore[attr-defined]  # set by django-ninja
        assert http.limit_key(request) == f"user:{bob.pk}"

    def test_limits_what_a_guest_does(self) -> None:
        guest = people.guest()
        for name in ("one", "two"):
            operations.create_group(name, by=guest)
        with pytest.raises(RateLimited):
            operations.create_group("three", by=guest)
        assert left("groups/create", operations.limit_key(guest)) < 1
        assert left("groups/create", f"user:{guest.pk}") == 2


class TestGuests:
    def test_get_no_api_token(self) -> None:
        """One captcha lets in one person, not a program of theirs."""
        with pytest.raises(MembersOnly):
            operations.create_token(people.guest(), name="script")

    def test_who_log_out_are_over_at_once(self) -> None:
        guest, ada = people.guest(), farm.user("ada")
        operations.end_guest(ada)
        assert Guest.objects.get().expires_at > clock.now()
        operations.end_guest(guest)
        assert Guest.objects.get().expires_at <= clock.now()


class TestSigningUpAsAGuest:
    def test_keeps_the_account_and_all_that_is_theirs(self) -> None:
        guest = people.guest()
        group = operations.create_group("Painters", by=guest)
        person = people.sign_up("ada", guest=guest, email="Ada@Example.COM")
        assert (person.pk, person.username, person.email) == (guest.pk, "ada", "Ada@example.com")
        assert person.check_password(farm.PASSWORD)
        assert not operations.is_guest(person)
        assert operations.limit_key(person) == f"user:{person.pk}"
        assert operations.members(group) == [person] == [operations.owner(group)]
        assert (User.objects.count(), Guest.objects.count()) == (1, 0)

    def test_makes_a_new_account_for_one_who_was_seen_off(self) -> None:
        guest = people.guest()
        Guest.objects.update(retired_at=clock.now())
        person = people.sign_up("ada", guest=guest)
        assert person.pk != guest.pk
        assert operations.is_guest(User.objects.get(pk=guest.pk))

    def test_gives_members_who_are_no_guests_another_account(self) -> None:
        ada = farm.user("ada")
        assert people.sign_up("bob", guest=ada).pk != ada.pk
        ada.refresh_from_db()
        assert ada.username == "ada"


class TestRetireGuests:
    @pytest.fixture
    def over(self) -> User:
        """A guest whose time is over."""
        guest = people.guest()
        Guest.objects.update(expires_at=clock.now())
        return guest

    def test_deletes_who_left_nothing_behind(self, over: User) -> None:
        farm.user("ada")
        fresh = people.guest()
        assert operations.retire_guests() == {"deleted": 1, "kept": 0}
        assert set(User.objects.values_list("username", flat=True)) == {"ada", fresh.username}

    def test_keeps_the_name_on_what_is_still_there_and_lets_nobody_in(self, over: User) -> None:
        jobs.sync()
        job = jobs.submit("chat", {}, owner=over)
        assert operations.retire_guests() == {"deleted": 0, "kept": 1}
        over.refresh_from_db()
        row = Guest.objects.get()
        assert (over.is_active, row.retired_at is not None) == (False, True)
        assert Job.objects.get(pk=job.pk).owner == over
        assert operations.is_guest(over)
        assert operations.retire_guests() == {"deleted": 0, "kept": 0}

    def test_takes_them_out_of_groups_which_go_with_their_last_member(self, over: User) -> None:
        alone = operations.create_group("alone", by=over)
        shared = operations.create_group("shared", by=over)
        ada = farm.user("ada")
        operations.join(operations.invite(shared, by=over), by=ada)
        assert operations.retire_guests() == {"deleted": 1, "kept": 0}
        assert not Group.objects.filter(pk=alone.pk).exists()
        assert operations.members(shared) == [ada]

    def test_tells_open_pages_of_a_guest_that_it_is_over(self, over: User, client: Client) -> None:
        client.force_login(over)
        Guest.objects.update(expires_at=clock.now())
        operations.retire_guests()
        assert client.get("/accounts/").headers["Location"].startswith("/accounts/login/")


class TestWhatRanOut:
    def test_goes_and_nothing_else(self) -> None:
        operations.new_captcha(address=HERE)
        CaptchaStore.objects.update(expiration=clock.now())
        kept = operations.new_captcha(address=HERE)
        for days in (-1, 1):
            session = SessionStore()
            session.set_expiry(clock.now() + timedelta(days=days))
            session.create()
        assert (scheduling.retain(names=["captchas"]), operations.end_sessions()) == ({"captchas": 1}, 1)
        assert CaptchaStore.objects.get().hashkey == kept
        assert Session.objects.get().expire_date > clock.now()

    def test_goes_by_the_clock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(crons, "_declared", {})
        monkeypatch.delitem(sys.modules, "accounts.crons", raising=False)  # some other test may have asked for it
        runpy.run_module("accounts.crons")
        scheduling.sync_crons()
        ours = Cron.objects.filter(retired_at=None)
        assert dict(ours.values_list("pk", "schedule")) == {
            "guests whose time is over": "17 * * * * in UTC",
            "sessions that ran out": "every 900 s",
            "tokens that ran out": "every 900 s",
        }

    def test_goes_on_at_once_where_more_ran_out_than_go_in_one_transaction(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(guests, "RETIRED_AT_ONCE", 2)
        for _ in range(3):
            people.guest()
        Guest.objects.update(expires_at=clock.now())
        assert [operations.retire_guests()["deleted"] for _ in range(3)] == [2, 1, 0]
        following = ScheduledFunction.objects.filter(status="pending").values_list("function", flat=True)
        assert [name.rpartition(".")[2] for name in following] == ["retire_guests"]


@pytest.mark.django_db(transaction=True)
def test_a_guest_who_cannot_be_deleted_is_retired_as_one_who_left_something() -> None:
    first, second = people.guest(), people.guest()
    Guest.objects.update(expires_at=clock.now() - timedelta(days=1))
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE of_another_app (it integer REFERENCES auth_user DEFERRABLE INITIALLY DEFERRED)")
        cursor.execute("INSERT INTO of_another_app VALUES (%s)", [first.pk])
        try:
            came = guests.retire_guests()
        finally:
            cursor.execute("DROP TABLE of_another_app")
    assert (came["deleted"], came["kept"], str(came["failed"]).partition(":")[0]) == (1, 1, f"{{'{first.username}'")
    assert User.objects.filter(pk=second.pk).count() == 0
    assert Guest.objects.get(user=first).retired_at is not None
    assert guests.retire_guests() == {"deleted": 0, "kept": 0}
