"""Groups that people make themselves: made, joined by a link, left.

A group is Django's. Its members are in the order of their joining; who has been in it longest keeps it: replaces and
withdraws its invitation, and takes people out. The group goes with its last member. Who joins, leaves or invites
locks the group's row of accounts first, so no two of these see the same state.
"""

import re
from dataclasses import dataclass

from django.contrib.auth.models import Group, User
from django.core import signing
from django.db import IntegrityError, transaction

from accounts import domain, errors, limits, queries
from accounts.models import MemberGroup
from ratelimits import operations as ratelimits

_CONTENT = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})")  # of a token: which group, and which of its invitations


@dataclass(frozen=True, slots=True, kw_only=True)
class Invited:
    group: Group
    members: int
    limit: int = domain.MEMBERS_LIMIT

    @property
    def is_full(self) -> bool:
        return self.members >= self.limit


def create_group(name: str, *, by: User) -> Group:
    """Make a group, with `by` as its first member and an invitation that is good at once.

    The name is 1 to 60 printable characters, and no other group has it. Raises InvalidGroupName, TooManyGroups,
    GroupNameTaken, and RateLimited after two a minute; one that was refused does not count.
    """
    tidied = domain.tidied(name)
    if not domain.is_group_name(tidied):
        raise errors.InvalidGroupName(limit=domain.GROUP_NAME_LIMIT)
    if MemberGroup.objects.filter(maker=by).count() >= domain.GROUPS_LIMIT:
        raise errors.TooManyGroups(limit=domain.GROUPS_LIMIT)
    try:
        with transaction.atomic():
            ratelimits.limit(limits.CREATE_GROUP, key=queries.limit_key(by), throws=True)
            group = Group.objects.create(name=tidied)
            MemberGroup.objects.create(group=group, maker=by)
            by.groups.add(group)
    except IntegrityError as error:
        raise errors.GroupNameTaken(name=tidied) from error
    return group


def owner(group: Group) -> User | None:
    """The owner of a group: its maker, or after they left whoever has been in it longest. None for a group of staff,
    which is kept in the administration."""
    return next(iter(queries.members(group)), None) if queries.member_group(group.pk) else None


def invitation(group: Group, *, by: User) -> str | None:
    """The token of the invitation that opens this group now; None while there is none. For members. Raises
    NotAMember."""
    if not queries.is_member(by, group):
        raise errors.NotAMember
    row = queries.member_group(group.pk)
    return _token(row) if row and row.is_inviting and not queries.is_of_staff(group) else None


@transaction.atomic
def invite(group: Group, *, by: User) -> str:
    """Make a new invitation and return its token. The one before it opens nothing any more. For who keeps the group.
    Raises NotAMember, NotTheOwner."""
    row = _kept(group, by)
    _replace_invitation(row)
    return _token(row)


@transaction.atomic
def withdraw_invitation(group: Group, *, by: User) -> None:
    """Let nobody else in until somebody makes a new invitation. For who keeps the group. Raises NotAMember,
    NotTheOwner."""
    row = _kept(group, by)
    row.is_inviting = False
    row.save(update_fields=["is_inviting"])


def invited(token: str) -> Invited:
    """What an invitation opens. Changes nothing. Raises InvitationUnknown."""
    group_id, number = _read(token)
    row = _opened(queries.member_group(group_id), number)
    return Invited(group=row.group, members=row.group.user_set.count())


def join(token: str, *, by: User) -> Group:
    """Become a member by an invitation; who is one already stays one.

    Of any number who come at once, as many get in as there is room for. Raises InvitationUnknown (also for a group
    that gives its members rights: staff alone put people there), GroupFull, RateLimited.
    """
    group_id, number = _read(token)
    ratelimits.limit(limits.JOIN_GROUP, key=queries.limit_key(by), throws=True)
    with transaction.atomic():
        group = _opened(queries.lock_member_group(group_id), number).group
        if not queries.is_member(by, group):
            if group.user_set.count() >= domain.MEMBERS_LIMIT:
                raise errors.GroupFull(limit=domain.MEMBERS_LIMIT)
            by.groups.add(group)
    return group


def leave(group: Group, *, by: User) -> None:
    """Be a member no more, which makes room for another. The last one to leave takes the group along, with all that
    hangs on it; jobs stay with who submitted them. Raises NotAMember, also for a group of staff."""
    with transaction.atomic():
        if queries.lock_member_group(group.pk) is None or not queries.is_member(by, group):
            raise errors.NotAMember
        by.groups.remove(group)
        # Locked before it is counted again: the administration puts nobody in between the two.
        if not group.user_set.exists() and Group.objects.select_for_update().filter(pk=group.pk).first():
            Group.objects.filter(pk=group.pk, user=None).delete()


@transaction.atomic
def remove_member(group: Group, *, person: User, by: User) -> None:
    """Take somebody out, and replace the invitation, which they know. For who keeps the group. Raises NotAMember for
    either, NotTheOwner."""
    row = _kept(group, by)
    if person == by or not queries.is_member(person, group):
        raise errors.NotAMember
    person.groups.remove(group)
    if row.is_inviting:
        _replace_invitation(row)


def _kept(group: Group, by: User) -> MemberGroup:
    row, members = queries.lock_member_group(group.pk), queries.members(group)
    if row is None or by not in members:
        raise errors.NotAMember
    if members[0] != by:
        raise errors.NotTheOwner
    return row


def _replace_invitation(row: MemberGroup) -> None:
    row.invitation += 1
    row.is_inviting = True
    row.save(update_fields=["invitation", "is_inviting"])


# Signed and not stored: members are shown the link whenever they look, and nobody who reads the tables has it.
def _token(row: MemberGroup) -> str:
    return _signer().sign(f"{row.pk}-{row.invitation}")


def _read(token: str) -> tuple[int, int]:
    """Which group, and which of its invitations. Raises InvitationUnknown."""
    try:
        content = _CONTENT.fullmatch(_signer().unsign(token))
    except (signing.BadSignature, UnicodeEncodeError):  # or a text that no UTF-8 can hold
        raise errors.InvitationUnknown from None
    if content is None:
        raise errors.InvitationUnknown
    return int(content[1]), int(content[2])


def _opened(row: MemberGroup | None, number: int) -> MemberGroup:
    if row is None or not row.is_inviting or row.invitation != number or queries.is_of_staff(row.group):
        raise errors.InvitationUnknown
    return row


def _signer() -> signing.Signer:
    return signing.Signer(sep=".", salt="accounts.invitation")
