"""Reads and single statements of accounts."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from captcha.models import CaptchaStore
from django.contrib.auth.models import Group, Permission, User
from django.db import transaction
from django.db.models import BooleanField, Count, ExpressionWrapper, F, ForeignObjectRel, Func, Q, QuerySet, Value
from django.db.models.functions import Now

from accounts import domain
from accounts.models import ApiToken, AuditEvent, AuditLine, Guest, MemberGroup, OneTimeLink
from postgres import statements

_TOKEN, _PERSON = ([field.attname for field in model._meta.concrete_fields] for model in (ApiToken, User))

USE_NOTED_EVERY = timedelta(minutes=1)  # a page that says "a minute ago" is served; a write for each call is not


def live_token(key_hash: str, *, address: str) -> statements.Row | None:
    """The row of the token with this hash and of its user, and whether a use of it from this address needs no note: one
    was noted within the last minute, and the address is known.

    None if it was revoked or ran out, or its user may not log in.
    """
    params = {"key_hash": key_hash, "every_s": USE_NOTED_EVERY.total_seconds(), "address": address}
    params["most"] = domain.ADDRESSES_LIMIT
    return next(iter(statements.load("accounts", "token_by_hash").run(params)), None)


def token_of(row: statements.Row, *, is_remembered: bool = False) -> ApiToken:
    """The token of this row with its user; what acts for one `is_remembered` looks whether it is still that version."""
    token = ApiToken.from_db("default", _TOKEN, [getattr(row, name) for name in _TOKEN])
    token.user = User.from_db("default", _PERSON, [getattr(row, f"person_{name}") for name in _PERSON])
    token.versions = (row.version, row.person_version) if is_remembered else None
    return token


def note_use(token: ApiToken, *, address: str) -> bool:
    """Remember that the token was used just now, of many who call at once by one; whether this address is a new one."""
    unnoted = Q(last_used_at=None) | Q(last_used_at__lte=Now() - USE_NOTED_EVERY)
    row = ApiToken.objects.filter(pk=token.pk)
    if not address or address in token.addresses or len(token.addresses) >= domain.ADDRESSES_LIMIT:
        row.filter(unnoted).update(last_used_at=Now())
        return False
    known = Func("addresses", Value(address), function="array_append", output_field=ApiToken.addresses.field)
    return bool(row.exclude(addresses__contains=[address]).update(last_used_at=Now(), addresses=known))


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """The tokens of a person that still open something, newest first."""
    return ApiToken.objects.filter(_is_good(), user=user)


def _is_good() -> Q:
    return Q(revoked_at=None) & (Q(expires_at=None) | Q(expires_at__gt=Now()))


def revoke_ended() -> list[int]:
    """Revoke the tokens that ran out, as of the moment they did; the ids of their people."""
    ended = ApiToken.objects.select_for_update().filter(revoked_at=None, expires_at__lte=Now()).order_by("pk")
    people = dict(ended.values_list("pk", "user_id"))
    ApiToken.objects.filter(pk__in=people).update(revoked_at=F("expires_at"))
    return list(people.values())


def revoke(token_id: int, *, owner: User | None) -> ApiToken | None:
    """Revoke a token (if an owner is named, only theirs), and return it; None if there was none."""
    tokens = ApiToken.objects.filter(pk=token_id, **({"user": owner} if owner else {}))
    if not tokens.filter(revoked_at=None).update(revoked_at=Now()):
        return None
    return tokens.select_related("user").get()


def spend(token_hash: str, *, now: datetime) -> OneTimeLink | None:
    """Use a one-time link up and give it back, or None when there was nothing to use.

    The conditions are columns of the row itself, never of a join: of two who come at once, the second waits
    for the first and then reads the row anew; a subquery would read the old snapshot and let both in.
    """
    usable = OneTimeLink.objects.filter(token_hash=token_hash, used_at=None, expires_at__gt=now)
    if not usable.update(used_at=now):
        return None
    return OneTimeLink.objects.select_related("user").get(token_hash=token_hash)


def is_usable(token_hash: str, *, now: datetime) -> bool:
    """Whether a one-time link would log somebody in."""
    links = OneTimeLink.objects.filter(token_hash=token_hash, used_at=None, expires_at__gt=now)
    return links.filter(user__is_active=True).exists()


def forget_links(user: User, *, before: datetime) -> None:
    """Delete a person's links that ran out before this moment."""
    OneTimeLink.objects.filter(user=user, expires_at__lt=before).delete()


def audit_line(pk: int) -> dict[str, Any]:
    """A line of the audit log as it goes to others."""
    return AuditLine.objects.select_related("by").get(pk=pk).row


def person(username: str) -> User | None:
    return User.objects.filter(username=username).first()


def administrator() -> User | None:
    """The oldest superuser who may log in."""
    return User.objects.filter(is_superuser=True, is_active=True).order_by("pk").first()


def people_in(groups: Iterable[Group | int]) -> list[int]:
    """Ids of everybody in any of these groups."""
    return list(User.objects.filter(groups__in=groups).values_list("pk", flat=True).distinct())


def people_with(permission: Permission) -> list[int]:
    """Ids of everybody who has this permission, by themselves or through a group."""
    holds = Q(user_permissions=permission) | Q(groups__permissions=permission)
    return list(User.objects.filter(holds).values_list("pk", flat=True).distinct())


def flags(user_id: int, names: Iterable[str]) -> dict[str, bool]:
    """These flags of a person as they are stored."""
    return User.objects.filter(pk=user_id).values(*names).first() or {}


def groups_of(user: User) -> list[Group]:
    """The groups somebody is in, those of staff included, by name."""
    return list(user.groups.order_by("name", "pk"))


def groups_with_counts(user: User) -> QuerySet[Group]:
    """The groups somebody is in, by name, each with `size` and `is_kept` (made by members)."""
    mine = Group.objects.filter(pk__in=user.groups.values("pk"))
    is_kept = ExpressionWrapper(Q(by_members__isnull=False), output_field=BooleanField())
    return mine.annotate(size=Count("user"), is_kept=is_kept).order_by("name", "pk")


def members(group: Group) -> list[User]:
    """Everybody in a group, who has been in it longest first."""
    memberships = User.groups.through.objects.filter(group=group)
    return [membership.user for membership in memberships.select_related("user").order_by("pk")]


def is_member(user: User, group: Group) -> bool:
    """Whether somebody is in a group now."""
    return User.groups.through.objects.filter(user=user, group=group).exists()


def count_members(group_id: int) -> int:
    return User.groups.through.objects.filter(group_id=group_id).count()


def group_owner(group: Group) -> User | None:
    """Who has been in a group longest."""
    membership = User.groups.through.objects.filter(group=group).select_related("user").order_by("pk").first()
    return membership.user if membership else None


def member_group(group_id: int) -> MemberGroup | None:
    """What a group of members has beside its members; None for a group that staff made."""
    return MemberGroup.objects.select_related("group").filter(pk=group_id).first()


def lock_member_group(group_id: int) -> MemberGroup | None:
    """The same, locked: who joins, leaves or invites goes one after the other, and jobs of the group do not wait."""
    rows = MemberGroup.objects.select_related("group").select_for_update(no_key=True, of=("self",))
    return rows.filter(pk=group_id).first()


def is_of_staff(group: Group) -> bool:
    """Whether being in a group gives rights: then nobody joins it by a link, whoever made it."""
    return group.permissions.exists()


def delete_if_empty(group_id: int) -> bool:
    """Delete a group if nobody is in it, with what hangs on it; whether it was deleted.

    Its row is locked before the read that counts, so that the administration cannot put somebody in between the two.
    """
    if count_members(group_id):
        return False
    if Group.objects.select_for_update().filter(pk=group_id).first() is None or count_members(group_id):
        return False
    Group.objects.filter(pk=group_id).delete()
    return True


def guest(user: User) -> Guest | None:
    """What makes somebody a guest; None for everybody else. Asked once for each object."""
    try:
        row: Guest = user.as_guest
    except Guest.DoesNotExist:
        return None
    return row


def called(username: str) -> User | None:
    """Who is called so, in capitals or not."""
    return User.objects.filter(username__iexact=username).first()


def lock_guest(user_id: int) -> Guest | None:
    """A guest and their account, both locked; None if they are none (any more)."""
    return Guest.objects.select_related("user").select_for_update().filter(pk=user_id, retired_at=None).first()


def guests_to_retire(*, now: datetime, limit: int) -> list[int]:
    """Ids of guests whose time is over, oldest first."""
    over = Guest.objects.filter(retired_at=None, expires_at__lte=now).order_by("expires_at", "pk")
    return list(over.values_list("pk", flat=True)[:limit])


def owns_something(user: User) -> bool:
    """Whether a row of any app points at this person, beside those that say that they are a guest and made a group."""
    relations = user._meta.get_fields(include_hidden=True)
    pointers = [relation.field for relation in relations if isinstance(relation, ForeignObjectRel)]
    return any(
        pointer.model._default_manager.filter(**{pointer.name: user}).exists()
        for pointer in pointers
        if pointer.model not in {AuditEvent, Guest, MemberGroup}
    )


def member_groups_of(user: User) -> list[Group]:
    return list(user.groups.filter(by_members__isnull=False).order_by("pk"))


@transaction.atomic
def solve_captcha(key: str, letters: str, *, now: datetime) -> bool:
    """Use a captcha up; whether these were its letters. Of two answers at once, one is checked."""
    store = CaptchaStore.objects.select_for_update().filter(hashkey=key, expiration__gt=now).first()
    if store is None:
        return False
    store.delete()
    return bool(store.response == letters)


def groups_of_staff() -> list[str]:
    """The names of groups that staff made, a hundred at most: those that members make may be thousands."""
    return list(Group.objects.filter(by_members=None).order_by("name").values_list("name", flat=True)[:100])
