"""Signing up and captchas at the same moment: limits are exact, a name has one owner, a picture lets one in."""

from collections import Counter
from functools import partial

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError

from accounts import operations
from accounts.errors import CaptchaFailed, UsernameTaken
from accounts.models import Guest
from postgres import clock
from ratelimits import operations as ratelimits
from ratelimits.errors import RateLimited
from tests import farm
from tests.accounts.concurrency.test_groups import outcome
from tests.accounts.integration import people

pytestmark = pytest.mark.django_db(transaction=True)


def test_whom_a_proxy_names_in_several_windows_at_once_is_one_person() -> None:
    for n in range(5):
        calls = [lambda: operations.person_of_proxy(f"ada{n}", email="", groups=None).pk] * 4  # noqa: B023 (called at once)
        assert len({*farm.at_once(*calls)}) == 1
    assert User.objects.count() == 5


class TestSigningUp:
    def test_lets_as_many_in_as_the_farm_has_room_for(self) -> None:
        ratelimits.limit("sign-up", count=43)  # of 50: a few come back while the test runs, at 10 a minute
        outcomes = farm.at_once(
            *[partial(outcome, partial(people.sign_up, f"person{n}", address=f"address:10.0.{n}.1")) for n in range(24)]
        )
        counted = Counter(outcomes)
        assert set(counted) == {"done", RateLimited.__name__}
        assert counted["done"] == User.objects.count()
        assert counted["done"] in {7, 8}

    def test_looks_at_thirty_tries_of_one_address(self) -> None:
        ratelimits.limit("sign-up/address", key=people.HERE, count=22)
        outcomes = farm.at_once(*[partial(outcome, partial(people.sign_up, f"person{n}")) for n in range(16)])
        assert Counter(outcomes) == {"done": 8, RateLimited.__name__: 8}

    def test_gives_a_name_to_one_however_it_is_written(self) -> None:
        """The database alone would take names that differ in capitals."""
        for round_no in range(10):
            names = [f"ada{round_no}", f"ADA{round_no}", f"Ada{round_no}", f"aDa{round_no}"]
            addresses = [f"address:10.{round_no}.{n}.1" for n in range(4)]
            outcomes = farm.at_once(
                *[
                    partial(outcome, partial(people.sign_up, name, address=address))
                    for name, address in zip(names, addresses, strict=True)
                ]
            )
            refusals = {UsernameTaken.__name__, ValidationError.__name__}  # the second before anything is stored
            assert (outcomes.count("done"), {*outcomes} - refusals) == (1, {"done"})

    def test_keeps_a_guests_account_once_of_two_windows(self) -> None:
        for round_no in range(10):
            address = f"address:10.0.0.{round_no}"
            guest = people.guest(address=address)
            names = (f"ada{round_no}", f"bob{round_no}")
            made = farm.at_once(*[partial(people.sign_up, name, guest=guest, address=address) for name in names])
            assert sorted(person.pk == guest.pk for person in made) == [False, True]
            assert {person.username for person in User.objects.filter(pk__in=[who.pk for who in made])} == {*names}
        assert (User.objects.count(), Guest.objects.count()) == (20, 0)

    def test_as_a_guest_is_over_before_or_after_they_are_seen_off(self) -> None:
        """Never an account with a password that was switched off or deleted."""
        for round_no in range(10):
            guest = people.guest(address=f"address:10.0.0.{round_no}")
            Guest.objects.update(expires_at=clock.now())
            address = f"address:10.1.0.{round_no}"
            sign_up = partial(people.sign_up, f"ada{round_no}", guest=guest, address=address)
            farm.at_once(partial(outcome, sign_up), partial(outcome, operations.retire_guests))
            person = User.objects.get(username=f"ada{round_no}")
            assert (person.is_active, person.has_usable_password()) == (True, True)
            assert not operations.is_guest(person)
            assert User.objects.filter(pk=guest.pk).exists() == (person.pk == guest.pk)


class TestCaptcha:
    def test_lets_one_of_twelve_in_who_know_its_letters(self) -> None:
        captcha = operations.new_captcha(address=people.HERE)
        letters = people.solution(captcha)
        come = partial(operations.enter_as_guest, captcha=captcha, letters=letters, address=people.HERE)
        outcomes = farm.at_once(*[partial(outcome, come)] * 12)
        assert Counter(outcomes) == {"done": 1, CaptchaFailed.__name__: 11}
        assert Guest.objects.count() == User.objects.count() == 1

    def test_is_answered_twenty_times_an_hour_from_one_address(self) -> None:
        come = partial(operations.enter_as_guest, captcha="none", letters="x", address=people.HERE)
        outcomes = farm.at_once(*[partial(outcome, come)] * 28)
        assert Counter(outcomes) == {CaptchaFailed.__name__: 20, RateLimited.__name__: 8}
