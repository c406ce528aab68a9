from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from captcha.models import CaptchaStore
from django.contrib.admin.models import ADDITION, CHANGE, LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.db import transaction
from django.db.models import BooleanField, Count, ExpressionWrapper, ForeignObjectRel, Func, Q, QuerySet, Value
from django.db.models.functions import Concat, Now

from accounts import domain
from accounts.models import ApiToken, AuditEvent, AuditLine, Guest, MemberGroup

_LINES_AT_ONCE = 1000
USE_NOTED_EVERY = timedelta(minutes=1)  # a page that says "a minute ago" is served; a write for each call is not


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
    return ApiToken.objects.filter(Q(expires_at=None) | Q(expires_at__gt=Now()), user=user, revoked_at=None)


def audit_line(pk: int) -> dict[str, Any]:
    return AuditLine.objects.select_related("by").get(pk=pk).row


def keep_lines(person: User) -> None:
    """Keep what somebody did, who is about to be deleted: the lines of Django's own log go with their account. Each has
    the name in its words, its place in the audit log, and what it is about."""
    by = f"{person.get_username()}: "
    AuditEvent.objects.filter(by=person).exclude(person=person).update(detail=Concat(Value(by), "detail"))
    words = {ADDITION: "added", CHANGE: "changed"}  # as in the log: all else is "deleted"
    lines = LogEntry.objects.filter(user=person).iterator()
    while some := list(islice(lines, _LINES_AT_ONCE)):
        AuditEvent.objects.bulk_create(
            AuditEvent(
                id=line.pk, at=line.action_time, event=words.get(line.action_flag, "deleted"), about=line.object_repr,
                detail=f"{by}{line.get_change_message()}"[:2000], content_type_id=line.content_type_id,
                object_id=line.object_id,
            )
            for line in some
        )  # fmt: skip


def person(username: str) -> User | None:
    return User.objects.filter(username=username).first()


def people_in(groups: Iterable[Group | int]) -> list[int]:
    return list(User.objects.filter(groups__in=groups).values_list("pk", flat=True).distinct())


def people_with(permission: Permission) -> list[int]:
    holds = Q(user_permissions=permission) | Q(groups__permissions=permission)
    return list(User.objects.filter(holds).values_list("pk", flat=True).distinct())


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
    """Return whether somebody is in a group now."""
    return User.groups.through.objects.filter(user=user, group=group).exists()


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


def guest(user: User) -> Guest | None:
    """What makes somebody a guest; None for everybody else. Asked once for each object."""
    try:
        row: Guest = user.as_guest
    except Guest.DoesNotExist:
        return None
    return row


def limit_key(user: User) -> str:
    """Whose tokens somebody takes: "user:<id>", and of a guest "session:<session id>", which the captcha authorized."""
    row = guest(user)
    return f"session:{row.session_id}" if row else f"user:{user.pk}"


def called(username: str) -> User | None:
    return User.objects.filter(username__iexact=username).first()


def lock_guest(user_id: int) -> Guest | None:
    """A guest and their account, both locked; None if they are none (any more)."""
    return Guest.objects.select_related("user").select_for_update().filter(pk=user_id, retired_at=None).first()


def owns_something(user: User) -> bool:
    """Whether a row of any app points at this person, beside those that say that they are a guest and made a group."""
    relations = user._meta.get_fields(include_hidden=True)
    pointers = [relation.field for relation in relations if isinstance(relation, ForeignObjectRel)]
    return any(
        pointer.model._default_manager.filter(**{pointer.name: user}).exists()
        for pointer in pointers
        if pointer.model not in {AuditEvent, Guest, MemberGroup}
    )


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
