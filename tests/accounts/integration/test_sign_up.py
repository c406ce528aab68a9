"""Signing up: who may be called how, and how many may come."""

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from pytest_django import Settings

from accounts import operations
from accounts.errors import SignUpClosed
from ratelimits import operations as ratelimits
from ratelimits.errors import RateLimited
from tests import farm
from tests.accounts.integration import people
from tests.jobs.limits.integration.sample import left

pytestmark = pytest.mark.django_db


class TestSignUp:
    def test_makes_a_person_with_a_name_and_a_password(self) -> None:
        person = people.sign_up(" ada ", email="Ada@Example.COM")
        stored = User.objects.get()
        assert person == stored
        assert (stored.username, stored.email) == ("ada", "Ada@example.com")
        assert stored.check_password(farm.PASSWORD)
        assert (stored.is_active, stored.is_staff, stored.is_superuser) == (True, False, False)
        assert not operations.is_guest(stored)

    @pytest.mark.parametrize("name", ["ada", "ADA", " Ada "])
    def test_refuses_a_name_that_somebody_has_in_capitals_or_not(self, name: str) -> None:
        farm.user("Ada")
        with pytest.raises(ValidationError, match="already exists"):
            people.sign_up(name)
        assert User.objects.count() == 1

    @pytest.mark.parametrize("name", ["admin", "Guest-7f3a", "assistant"])
    def test_keeps_names_that_would_be_taken_for_the_farms_own(self, name: str) -> None:
        with pytest.raises(ValidationError, match="already exists"):
            people.sign_up(name)

    @pytest.mark.parametrize("name", ["", "   ", "two words", "nul\x00", "a/b", "x" * 151, "\ud800", "<b>"])
    def test_refuses_what_is_no_name(self, name: str) -> None:
        with pytest.raises(ValidationError, match=r"valid username|at most 150"):
            people.sign_up(name)
        assert not User.objects.exists()

    def test_takes_one_text_for_one_name(self) -> None:
        """The letter å as one sign or as two, and ﬁ as one or two: what looks alike is the same name (NFKC)."""
        people.sign_up("\u00e5sa")
        with pytest.raises(ValidationError, match="already exists"):
            people.sign_up("a\u030asa")

    def test_is_refused_where_it_is_closed(self, settings: Settings) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "SIGN_UP": False}
        with pytest.raises(SignUpClosed):
            people.sign_up()


class TestLimits:
    def test_count_accounts_for_the_whole_farm_and_tries_by_address(self) -> None:
        people.sign_up("ada")
        with pytest.raises(ValidationError, match="already exists"):
            people.sign_up("ada")
        assert left("sign-up") == pytest.approx(49, abs=0.5)
        assert left("sign-up/address", people.HERE) == pytest.approx(28, abs=0.1)

    def test_end_names_being_tried_out_from_one_address(self) -> None:
        farm.user("ada")
        for _ in range(30):
            with pytest.raises(ValidationError, match="already exists"):
                people.sign_up("ada")
        with pytest.raises(RateLimited) as caught:
            people.sign_up("bob")
        assert caught.value.name == "sign-up/address"
        assert people.sign_up("bob", address="address:10.0.0.2").username == "bob"

    def test_hold_from_any_number_of_addresses(self) -> None:
        ratelimits.limit("sign-up", count=50)
        with pytest.raises(RateLimited) as caught:
            people.sign_up("ada", address="address:10.0.0.3")
        assert (caught.value.name, User.objects.count()) == ("sign-up", 0)
