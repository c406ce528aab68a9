"""Many who join, leave and invite at the same moment: never a member too many, never a group without members."""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError

from accounts import operations
from accounts.errors import AccountsError, GroupFull, GroupNameTaken, InvitationUnknown, NotAMember
from accounts.models import MemberGroup
from ratelimits.errors import RateLimited
from tests import farm

pytestmark = pytest.mark.django_db(transaction=True)


def outcome(do: Callable[[], Any]) -> str:
    """What came of it, in a word."""
    try:
        do()
    except (AccountsError, RateLimited, ValidationError) as refusal:
        return type(refusal).__name__
    return "done"


def people(count: int) -> list[User]:
    """So many who may log in."""
    return User.objects.bulk_create(User(username=f"person{n}") for n in range(count))


def filled(*, to: int) -> tuple[Group, str]:
    """A group with so many members, and its invitation."""
    ada = farm.user("ada")
    group = operations.create_group("Painters", by=ada)
    group.user_set.add(*User.objects.bulk_create(User(username=f"member{n}") for n in range(to - 1)))
    token = operations.invitation(group, by=ada)
    assert token is not None
    return group, token


class TestJoining:
    def test_one_of_thirty_gets_the_last_place(self) -> None:
        group, token = filled(to=24)
        outcomes = farm.at_once(
            *[partial(outcome, partial(operations.join, token, by=person)) for person in people(30)]
        )
        assert Counter(outcomes) == {"done": 1, GroupFull.__name__: 29}
        assert len(operations.members(group)) == 25

    def test_the_same_person_from_three_windows_is_one_member(self) -> None:
        group, token = filled(to=24)
        [bob] = people(1)
        assert farm.at_once(*[partial(operations.join, token, by=bob)] * 3) == [group] * 3
        assert operations.members(group).count(bob) == 1
        assert len(operations.members(group)) == 25

    def test_places_that_are_freed_are_filled_and_no_more(self) -> None:
        group, token = filled(to=25)
        leaving = operations.members(group)[5:15]
        coming = people(20)
        outcomes = farm.at_once(
            *[partial(outcome, partial(operations.leave, group, by=person)) for person in leaving],
            *[partial(outcome, partial(operations.join, token, by=person)) for person in coming],
        )
        assert outcomes[:10] == ["done"] * 10
        joined = outcomes[10:].count("done")
        assert set(outcomes[10:]) <= {"done", GroupFull.__name__}
        assert len(operations.members(group)) == 15 + joined <= 25

    def test_nobody_comes_in_by_a_link_that_was_replaced_before(self) -> None:
        group, token = filled(to=1)
        [ada] = operations.members(group)
        outcomes = farm.at_once(
            partial(outcome, partial(operations.invite, group, by=ada)),
            *[partial(outcome, partial(operations.join, token, by=person)) for person in people(10)],
        )
        assert outcomes[0] == "done"
        assert set(outcomes[1:]) <= {"done", InvitationUnknown.__name__}
        assert len(operations.members(group)) == 1 + outcomes[1:].count("done")
        assert outcome(partial(operations.join, token, by=farm.user("late"))) == InvitationUnknown.__name__


class TestTheLastMember:
    def test_leaves_while_somebody_joins_and_one_of_the_two_is_first(self) -> None:
        """Either the group is gone and the invitation with it, or it lives on with its new member."""
        for round_no in range(20):
            ada, bob = farm.user(f"ada{round_no}"), farm.user(f"bob{round_no}")
            group = operations.create_group(f"Painters {round_no}", by=ada)
            token = operations.invitation(group, by=ada)
            assert token is not None
            left, joined = farm.at_once(
                partial(outcome, partial(operations.leave, group, by=ada)),
                partial(outcome, partial(operations.join, token, by=bob)),
            )
            lives = Group.objects.filter(pk=group.pk).exists()
            assert (left, joined, lives) in {("done", "done", True), ("done", InvitationUnknown.__name__, False)}
            assert operations.members(group) == ([bob] if lives else [])

    def test_leaves_while_the_administration_puts_somebody_in(self) -> None:
        """The administration locks no row of ours; the group's own row decides."""
        for round_no in range(20):
            ada, bob = farm.user(f"ada{round_no}"), farm.user(f"bob{round_no}")
            group = operations.create_group(f"Painters {round_no}", by=ada)

            def put_in(group: Group = group, bob: User = bob) -> str:
                from django.db import IntegrityError

                try:
                    bob.groups.add(group)
                except IntegrityError:
                    return "gone"
                return "done"

            left, put = farm.at_once(partial(outcome, partial(operations.leave, group, by=ada)), put_in)
            assert left == "done"
            lives = Group.objects.filter(pk=group.pk).exists()
            assert (put, lives) in {("done", True), ("gone", False)}
            assert operations.members(group) == ([bob] if lives else [])

    def test_all_who_leave_at_once_take_the_group_along(self) -> None:
        group, _ = filled(to=12)
        leaving = operations.members(group)
        outcomes = farm.at_once(
            *[partial(outcome, partial(operations.leave, group, by=person)) for person in [*leaving, leaving[0]]]
        )
        assert Counter(outcomes) == {"done": 12, NotAMember.__name__: 1}
        assert (Group.objects.count(), MemberGroup.objects.count()) == (0, 0)


class TestMaking:
    def test_one_of_eight_gets_the_name(self) -> None:
        outcomes = farm.at_once(
            *[partial(outcome, partial(operations.create_group, "Painters", by=person)) for person in people(8)]
        )
        assert Counter(outcomes) == {"done": 1, GroupNameTaken.__name__: 7}
        assert len(operations.members(Group.objects.get())) == 1

    def test_one_person_makes_two_of_eight(self) -> None:
        [bob] = people(1)
        outcomes = farm.at_once(
            *[partial(outcome, partial(operations.create_group, f"Painters {n}", by=bob)) for n in range(8)]
        )
        assert Counter(outcomes) == {"done": 2, RateLimited.__name__: 6}
        assert len(operations.groups_of(bob)) == 2
