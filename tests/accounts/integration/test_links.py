"""One-time links let one in, once; and there is always an administrator."""

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import TypeVar

import pytest
from django.contrib.auth.models import User

from accounts import domain, operations
from accounts.errors import InactiveUser, LinkSpent
from accounts.models import OneTimeLink
from postgres import clock, connections

pytestmark = pytest.mark.django_db(transaction=True)
T = TypeVar("T")


def at_once(times: int, do: Callable[[], T]) -> list[T]:
    """What `do` returned in each of so many threads, all of which began together."""
    barrier = threading.Barrier(times)

    def one(_: int) -> T:
        with connections.released():
            barrier.wait()
            return do()

    with ThreadPoolExecutor(times) as threads:
        return list(threads.map(one, range(times)))


def token_of(path: str) -> str:
    """The secret part of a link."""
    return path.rstrip("/").rpartition("/")[2]


class TestOneTimeLink:
    def test_is_a_path_whose_secret_is_stored_as_a_hash(self, ada: User) -> None:
        path = operations.one_time_link(ada)
        assert path == f"/accounts/link/{token_of(path)}/"
        assert OneTimeLink.objects.get().token_hash == domain.hashed(token_of(path))

    def test_is_good_for_as_many_minutes_as_asked(self, ada: User) -> None:
        token = token_of(operations.one_time_link(ada, minutes=10))
        now = clock.now()
        assert operations.is_usable(token, now=now + timedelta(minutes=9))
        assert not operations.is_usable(token, now=now + timedelta(minutes=10))

    def test_leaves_other_links_alone_and_forgets_those_that_ran_out(self, ada: User) -> None:
        old = operations.one_time_link(ada)
        OneTimeLink.objects.update(expires_at=clock.now() - timedelta(seconds=1))
        first, second = operations.one_time_link(ada), operations.one_time_link(ada)
        usable = [operations.is_usable(token_of(path), now=clock.now()) for path in (old, first, second)]
        assert usable == [False, True, True]
        assert OneTimeLink.objects.count() == 2

    def test_is_refused_to_somebody_who_may_not_log_in(self) -> None:
        with pytest.raises(InactiveUser):
            operations.one_time_link(User.objects.create_user("bob", is_active=False))


class TestRedeem:
    def test_says_whom_it_logs_in_and_is_then_used_up(self, ada: User) -> None:
        token, now = token_of(operations.one_time_link(ada)), clock.now()
        assert operations.redeem(token, now=now, address="address:10.0.0.1") == ada
        assert OneTimeLink.objects.get().used_at == now
        assert not operations.is_usable(token, now=now)
        with pytest.raises(LinkSpent):
            operations.redeem(token, now=now, address="address:10.0.0.1")

    def test_lets_one_of_sixteen_in_who_come_at_once(self, ada: User) -> None:
        token, now = token_of(operations.one_time_link(ada)), clock.now()
        numbers = itertools.count(1)

        def come() -> User | None:
            try:  # each from somewhere else: of one address ten may try, and the link alone is to decide here
                return operations.redeem(token, now=now, address=f"address:10.0.0.{next(numbers)}")
            except LinkSpent:
                return None

        came_in = [user for user in at_once(16, come) if user is not None]
        assert came_in == [ada]

    def test_refuses_a_link_that_ran_out(self, ada: User) -> None:
        token = token_of(operations.one_time_link(ada, minutes=1))
        with pytest.raises(LinkSpent):
            operations.redeem(token, now=clock.now() + timedelta(minutes=1), address="address:10.0.0.1")

    @pytest.mark.parametrize("token", ["", "x", "\x00", "\ud800"])
    def test_refuses_what_never_was_a_link(self, ada: User, token: str) -> None:
        operations.one_time_link(ada)
        with pytest.raises(LinkSpent):
            operations.redeem(token, now=clock.now(), address="address:10.0.0.1")

    def test_refuses_somebody_who_was_switched_off_and_keeps_the_link(self, ada: User) -> None:
        token = token_of(operations.one_time_link(ada))
        User.objects.update(is_active=False)
        assert not operations.is_usable(token, now=clock.now())
        with pytest.raises(LinkSpent):
            operations.redeem(token, now=clock.now(), address="address:10.0.0.1")
        User.objects.update(is_active=True)
        assert operations.redeem(token, now=clock.now(), address="address:10.0.0.1") == ada


class TestEnsureAdministrator:
    def test_makes_one_without_a_password_and_finds_them_again(self) -> None:
        made, was_made = operations.ensure_administrator()
        assert (made.username, made.is_superuser, made.is_staff, made.is_active, made.has_usable_password()) == (
            *("admin", True, True, True),
            False,
        )
        assert was_made
        assert operations.ensure_administrator() == (made, False)

    def test_finds_a_superuser_of_any_name(self) -> None:
        root = User.objects.create_superuser("root")
        assert operations.ensure_administrator() == (root, False)

    def test_promotes_nobody_for_being_called_admin(self) -> None:
        member = User.objects.create_user("admin")
        made, was_made = operations.ensure_administrator()
        member.refresh_from_db()
        assert (made.username, was_made, member.is_superuser) == ("admin-2", True, False)

    def test_does_not_count_a_superuser_who_may_not_log_in(self) -> None:
        User.objects.create_superuser("admin", is_active=False)
        assert operations.ensure_administrator()[0].username == "admin-2"

    def test_makes_one_when_eight_processes_start_at_once(self) -> None:
        answers = at_once(8, operations.ensure_administrator)
        assert len({user.pk for user, _ in answers}) == 1
        assert sum(was_made for _, was_made in answers) == 1
        assert list(User.objects.values_list("username", flat=True)) == ["admin"]
