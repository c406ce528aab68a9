"""Groups that people make: joined by a link, kept by who has been in them longest, gone with their last member."""

import json
from collections.abc import Callable

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import override_settings

from accounts import domain, operations
from accounts.errors import (
    GroupFull,
    GroupNameTaken,
    InvalidGroupName,
    InvitationUnknown,
    NotAMember,
    NotTheOwner,
    TooManyGroups,
)
from accounts.models import MemberGroup
from jobs import operations as jobs
from ratelimits import operations as ratelimits
from ratelimits.errors import RateLimited
from tests import farm
from tests.live.integration.support import listening

pytestmark = pytest.mark.django_db


@pytest.fixture
def group(ada: User) -> Group:
    """A group with one member."""
    return operations.create_group("Painters", by=ada)


def link(group: Group, by: User) -> str:
    """The invitation there is."""
    token = operations.invitation(group, by=by)
    assert token is not None
    return token


def joined(group: Group, person: User) -> User:
    """The person, now a member."""
    operations.join(link(group, operations.members(group)[0]), by=person)
    return person


def fill(group: Group, *, up_to: int) -> None:
    """Put people in past the invitation."""
    missing = up_to - group.user_set.count()
    group.user_set.add(*(User.objects.create_user(f"member{n}") for n in range(missing)))


class TestCreateGroup:
    def test_has_its_maker_as_member_and_owner_and_an_open_invitation(self, ada: User, group: Group) -> None:
        assert operations.members(group) == [ada] == [operations.owner(group)]
        assert operations.groups_of(ada) == [group]
        row = MemberGroup.objects.get()
        assert (row.group, row.maker, row.invitation, row.is_inviting) == (group, ada, 1, True)

    def test_stores_names_in_one_form(self, ada: User) -> None:
        group = operations.create_group("  Cafe\u0301 \t crowd ", by=ada)
        assert group.name == "Café crowd"

    @pytest.mark.parametrize("name", ["", "   ", "x" * 61, "bell\x07", "right\u202eleft", "nul\x00"])
    def test_refuses_what_is_no_name(self, ada: User, name: str) -> None:
        with pytest.raises(InvalidGroupName) as caught:
            operations.create_group(name, by=ada)
        assert caught.value.message == "A group needs a name of 1 to 60 characters that can be printed."
        assert not Group.objects.exists()

    def test_refuses_the_name_of_another_group(self, bob: User, group: Group) -> None:
        with pytest.raises(GroupNameTaken) as caught:
            operations.create_group(" Painters", by=bob)
        assert caught.value.message == "There is already a group called Painters: choose another name."
        assert operations.groups_of(bob) == []

    def test_is_granted_twice_a_minute_and_refusals_do_not_count(self, ada: User, bob: User) -> None:
        Group.objects.create(name="operators")
        for _ in range(3):
            with pytest.raises(GroupNameTaken):
                operations.create_group("operators", by=ada)
        for name in ("one", "two"):
            operations.create_group(name, by=ada)
        with pytest.raises(RateLimited) as caught:
            operations.create_group("three", by=ada)
        assert 55 < caught.value.retry_after.total_seconds() <= 60
        assert [group.name for group in operations.groups_of(ada)] == ["one", "two"]
        assert operations.create_group("three", by=bob).name == "three"


class TestInvitation:
    def test_is_shown_to_members_alone(self, ada: User, bob: User, group: Group) -> None:
        with pytest.raises(NotAMember):
            operations.invitation(group, by=bob)
        token = link(group, ada)
        operations.join(token, by=bob)
        assert operations.invitation(group, by=bob) == token

    def test_says_what_it_opens_before_it_is_used(self, ada: User, group: Group) -> None:
        invited = operations.invited(link(group, ada))
        assert (invited.group, invited.members, invited.limit, invited.is_full) == (group, 1, 25, False)
        fill(group, up_to=25)
        assert operations.invited(link(group, ada)).is_full

    def test_replaces_the_one_before_it(self, ada: User, bob: User, group: Group) -> None:
        old = link(group, ada)
        new = operations.invite(group, by=ada)
        assert new != old
        for refused in (operations.invited, lambda token: operations.join(token, by=bob)):
            with pytest.raises(InvitationUnknown):
                refused(old)
        assert operations.join(new, by=bob) == group

    def test_is_none_once_withdrawn_until_a_new_one_is_made(self, ada: User, bob: User, group: Group) -> None:
        old = link(group, ada)
        operations.withdraw_invitation(group, by=ada)
        assert operations.invitation(group, by=ada) is None
        with pytest.raises(InvitationUnknown):
            operations.join(old, by=bob)
        new = operations.invite(group, by=ada)
        assert operations.join(new, by=bob) == group
        with pytest.raises(InvitationUnknown):
            operations.invited(old)

    @pytest.mark.parametrize("use", ["invite", "withdraw_invitation"])
    def test_is_changed_by_the_owner_alone(self, ada: User, bob: User, group: Group, use: str) -> None:
        token, change = link(group, ada), getattr(operations, use)
        with pytest.raises(NotAMember):
            change(group, by=bob)
        joined(group, bob)
        with pytest.raises(NotTheOwner):
            change(group, by=bob)
        assert link(group, ada) == token

    @pytest.mark.parametrize("token", ["", "x", "1-1", "\x00", "\ud800", "1-1.\ud800", "9" * 5000, "1-1.é"])
    def test_opens_nothing_that_was_never_one(self, bob: User, group: Group, token: str) -> None:
        with pytest.raises(InvitationUnknown):
            operations.join(token, by=bob)

    def test_cannot_be_made_up_for_another_group(self, ada: User, bob: User, group: Group) -> None:
        other = operations.create_group("Poets", by=ada)
        signature = link(group, ada).rpartition(".")[2]
        with pytest.raises(InvitationUnknown):
            operations.join(f"{other.pk}-1.{signature}", by=bob)

    def test_goes_on_opening_while_the_sites_key_is_replaced(self, ada: User, bob: User, group: Group) -> None:
        token = link(group, ada)
        from django.conf import settings

        with override_settings(SECRET_KEY="another", SECRET_KEY_FALLBACKS=[settings.SECRET_KEY]):
            assert operations.join(token, by=bob) == group
        with override_settings(SECRET_KEY="another"), pytest.raises(InvitationUnknown):
            operations.invited(token)


class TestStaffGroups:
    def test_have_no_invitation_and_no_owner(self, ada: User) -> None:
        operators = Group.objects.create(name="operators")
        ada.groups.add(operators)
        assert (operations.invitation(operators, by=ada), operations.owner(operators)) == (None, None)
        for change in (operations.invite, operations.withdraw_invitation, operations.leave):
            with pytest.raises(NotAMember):
                change(operators, by=ada)
        assert operations.is_member(ada, operators)

    def test_are_not_joined_by_a_link_once_they_give_rights(self, ada: User, bob: User, group: Group) -> None:
        """Staff may give rights to a group that members made; who has its link must not get them."""
        token = link(group, ada)
        group.permissions.add(Permission.objects.get(codename="operate_job"))
        assert operations.invitation(group, by=ada) is None
        for refused in (operations.invited, lambda token: operations.join(token, by=bob)):
            with pytest.raises(InvitationUnknown):
                refused(token)
        with pytest.raises(InvitationUnknown):
            operations.join(operations.invite(group, by=ada), by=bob)
        assert operations.members(group) == [ada]


class TestJoin:
    def test_makes_a_member_who_sees_the_groups_jobs(self, ada: User, bob: User, group: Group) -> None:
        assert operations.join(link(group, ada), by=bob) == group
        assert operations.members(group) == [ada, bob]
        assert operations.is_member(bob, group)

    def test_is_no_error_for_a_member_and_changes_nothing(self, ada: User, bob: User, group: Group) -> None:
        joined(group, bob)
        fill(group, up_to=25)
        before = operations.members(group)
        for person in (ada, bob):
            assert operations.join(link(group, ada), by=person) == group
        assert operations.members(group) == before

    def test_is_refused_where_there_are_twenty_five(self, ada: User, bob: User, group: Group) -> None:
        fill(group, up_to=25)
        with pytest.raises(GroupFull) as caught:
            operations.join(link(group, ada), by=bob)
        assert caught.value.numbers == {"limit": 25}
        operations.leave(group, by=operations.members(group)[7])
        assert operations.join(link(group, ada), by=bob) == group
        assert len(operations.members(group)) == 25

    def test_is_limited_by_person(self, ada: User, bob: User, group: Group) -> None:
        token = link(group, ada)
        for _ in range(3):
            operations.join(token, by=bob)
        with pytest.raises(RateLimited):
            operations.join(token, by=bob)
        assert operations.join(token, by=ada) == group
        ratelimits.reset("groups/join", key=f"user:{bob.pk}")
        assert operations.join(token, by=bob) == group


class TestLeave:
    def test_hands_the_group_on_to_who_has_been_in_it_longest(self, ada: User, bob: User, group: Group) -> None:
        joined(group, bob)
        eve = joined(group, farm.user("eve"))
        operations.leave(group, by=ada)
        assert operations.members(group) == [bob, eve]
        assert operations.owner(group) == bob
        operations.join(operations.invite(group, by=bob), by=ada)
        assert operations.members(group) == [bob, eve, ada]
        with pytest.raises(NotTheOwner):
            operations.invite(group, by=ada)
        assert MemberGroup.objects.get().maker == ada

    def test_takes_the_group_along_with_its_last_member(self, ada: User, group: Group) -> None:
        jobs.sync()
        token = link(group, ada)
        job = jobs.submit("chat", {"messages": []}, owner=ada, group=group)
        operations.leave(group, by=ada)
        assert (Group.objects.count(), MemberGroup.objects.count()) == (0, 0)
        job.refresh_from_db()
        assert (job.owner, job.group) == (ada, None)
        with pytest.raises(InvitationUnknown):
            operations.join(token, by=ada)

    def test_is_refused_to_who_is_no_member(self, ada: User, bob: User, group: Group) -> None:
        with pytest.raises(NotAMember):
            operations.leave(group, by=bob)
        joined(group, bob)
        operations.leave(group, by=bob)
        with pytest.raises(NotAMember):
            operations.leave(group, by=bob)
        assert operations.members(group) == [ada]

    def test_hands_the_group_on_when_an_account_is_deleted(self, ada: User, bob: User, group: Group) -> None:
        joined(group, bob)
        ada.delete()
        assert operations.owner(group) == bob
        assert MemberGroup.objects.get().maker is None


class TestRemoveMember:
    def test_takes_them_out_and_replaces_the_invitation_they_know(self, ada: User, bob: User, group: Group) -> None:
        joined(group, bob)
        known = link(group, bob)
        operations.remove_member(group, person=bob, by=ada)
        assert operations.members(group) == [ada]
        with pytest.raises(InvitationUnknown):
            operations.join(known, by=bob)

    def test_opens_nothing_that_was_withdrawn(self, ada: User, bob: User, group: Group) -> None:
        joined(group, bob)
        operations.withdraw_invitation(group, by=ada)
        operations.remove_member(group, person=bob, by=ada)
        assert operations.invitation(group, by=ada) is None

    def test_is_for_the_owner_and_of_members(self, ada: User, bob: User, group: Group) -> None:
        eve = farm.user("eve")
        for person, by in ((ada, bob), (eve, ada), (ada, ada)):
            with pytest.raises(NotAMember):
                operations.remove_member(group, person=person, by=by)
        joined(group, bob)
        with pytest.raises(NotTheOwner):
            operations.remove_member(group, person=ada, by=bob)
        assert operations.members(group) == [ada, bob]


class TestTopics:
    @pytest.mark.django_db(transaction=True)
    def test_of_the_person_and_the_group_are_touched_by_every_change(self) -> None:
        ada, bob = farm.user("ada"), farm.user("bob")
        group = operations.create_group("Painters", by=ada)
        of_ada, of_bob, of_group = f"user:{ada.pk}", f"user:{bob.pk}", f"group:{group.pk}"
        changes: list[tuple[Callable[[], object], set[str]]] = [
            (lambda: operations.join(link(group, ada), by=bob), {of_bob, of_group}),
            (lambda: operations.join(link(group, ada), by=bob), set()),
            (lambda: operations.remove_member(group, person=bob, by=ada), {of_bob, of_group}),
            (lambda: operations.invite(group, by=ada), {of_group}),
            (lambda: operations.withdraw_invitation(group, by=ada), {of_group}),
            (lambda: operations.leave(group, by=ada), {of_ada, of_group}),
        ]
        for change, touched in changes:
            with listening() as notifications:
                change()
                assert {topic for payload in notifications() for topic in json.loads(payload)["message"]["topics"]} - {
                    "limits"
                } == touched


def test_a_person_makes_so_many_groups_and_another_their_own(
    ada: User, boss: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domain, "GROUPS_LIMIT", 1)
    first = operations.create_group("one", by=ada)
    with pytest.raises(TooManyGroups, match="You made 1 groups"):
        operations.create_group("two", by=ada)
    operations.create_group("two", by=boss)
    operations.leave(first, by=ada)
    operations.create_group("three", by=ada)
