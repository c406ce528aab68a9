"""What follows when a person's rights change: every watch of that person is checked again, and a line of the audit log.

Topics `user:<id>`, and `group:<id>` for what is shown of a group's members. They cover what goes through the ORM's
objects: `QuerySet.update()` sends no signal, so code that changes rights that way touches the topic itself.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from allauth.account import signals as account
from allauth.core import context
from allauth.mfa import signals as mfa
from allauth.socialaccount import signals as social
from django.contrib.admin.models import LogEntry
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import Group, Permission, User
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Model
from django.db.models.signals import ModelSignal, m2m_changed, post_delete, post_save, pre_delete, pre_save

from accounts import limits, queries
from accounts.models import ApiToken, AuditEvent, MemberGroup
from live import addresses, operations as live
from ratelimits import operations as ratelimits

CHANGES = {"post_add", "post_remove", "pre_clear"}  # after a clear nobody can say any more whom it hit
IRRELEVANT = {"last_login"}  # written at every log-in, and no right hangs on it
_FLAGS: Final = ("is_active", "is_staff", "is_superuser")
# Signals of allauth that are lines of the audit log.
_NOTED: Final = {
    "password_changed": (account.password_changed, "password_changed"),
    "password_set": (account.password_set, "password_changed"),
    "password_reset": (account.password_reset, "password_changed"),
    "code_failed": (mfa.authentication_failed, "log_in_failed"),
    "factor_added": (mfa.authenticator_added, "second_factor_added"),
    "factor_removed": (mfa.authenticator_removed, "second_factor_removed"),
    "account_connected": (social.social_account_added, "account_connected"),
    "account_removed": (social.social_account_removed, "account_removed"),
}
_audited: list[Callable[[int], object]] = []  # what hears of new lines of the audit log, by their ids
handed_over: list[Callable[[User], object]] = []  # what ends what others set up in an account that is theirs no more


def connect() -> None:
    """Listen to every way in which rights change. Calling it twice does no more than calling it once."""
    for through in (User.groups.through, User.user_permissions.through, Group.permissions.through):
        m2m_changed.connect(_relation_changed, sender=through, dispatch_uid=f"accounts.{through.__name__}")
    for name, (noted, event) in _NOTED.items():
        noted.connect(_noting(event), weak=False, dispatch_uid=f"accounts.{name}")
    receivers: list[tuple[ModelSignal, type[Model], Callable[..., None]]] = [
        (pre_save, User, _flags_saved),
        (post_save, LogEntry, _staff_acted),
        (post_save, User, _person_saved),
        (pre_delete, User, _user_deleted),
        (post_delete, ApiToken, lambda instance, **_: touch([instance.user_id])),
        (post_delete, Session, _session_ended),
        (post_save, MemberGroup, lambda instance, **_: touch_groups([instance.pk])),
        (pre_delete, Group, _group_deleted),
        (pre_delete, Permission, lambda instance, **_: touch(queries.people_with(instance))),
    ]
    for number, (signal, model, receiver) in enumerate(receivers):
        signal.connect(receiver, sender=model, weak=False, dispatch_uid=f"accounts.{number}")


def touch(user_ids: Iterable[int]) -> None:
    """Say that these people's rights may have changed; published after the commit."""
    live.touch(*(f"user:{user_id}" for user_id in user_ids))


def touch_groups(group_ids: Iterable[int]) -> None:
    """Say that who is in these groups, or how one gets in, changed; published after the commit."""
    live.touch(*(f"group:{group_id}" for group_id in group_ids))


def observe_audit(observer: Callable[[int], object]) -> None:
    """Have this called with the id of each new line of people and of staff, in the transaction that writes it."""
    _audited.append(observer)


@transaction.atomic
def audit(event: str, person: User | None, detail: str = "", *, about: str = "", address: str = "") -> None:
    """Write a line of the audit log: one of domain.EVENTS, and whom it is about. Who did it, and from where, is who
    sent the request that is being answered; on the farm's machine nobody. Of failures of one address so many are
    written in an hour, and no more."""
    request: Any = context.request
    address = address or (addresses.network(request.META.get("REMOTE_ADDR")) or "" if request else "")
    if event == "log_in_failed" and not ratelimits.limit(limits.AUDITED, key=f"address:{address}"):
        return
    name = about or (person.get_username() if person else "")
    row = AuditEvent.objects.create(
        event=event, by=actor(), person=person, about=name, address=address, detail=detail[:2000]
    )
    _notify(row.pk)


def actor() -> User | None:
    request: Any = context.request
    user = getattr(request, "auth", None) or getattr(request, "user", None)
    return user if isinstance(user, User) else None


def _notify(pk: int) -> None:
    for observer in _audited:
        observer(pk)


def _staff_acted(instance: LogEntry, created: bool, **_: Any) -> None:
    """Members leave lines too, of what they do to their own jobs: these tell nobody."""
    by = actor()
    if created and by is not None and by.is_staff:
        _notify(instance.pk)


def _noting(event: str) -> Callable[..., None]:
    def note(sender: Any, user: User | None = None, authenticator: Any = None, **more: Any) -> None:  # noqa: ARG001
        detail = authenticator.get_type_display() if authenticator else ""
        if account := more.get("socialaccount") or getattr(more.get("sociallogin"), "account", None):
            user, detail = account.user, f"{account.provider}: {account.uid}"
        audit(event, user, detail)

    return note


def _flags_saved(instance: User, update_fields: frozenset[str] | None, **_: Any) -> None:
    """Note which flags of a person change; of who is new, those that were given."""
    if update_fields is not None and not update_fields & set(_FLAGS):
        return
    stored = User.objects.filter(pk=instance.pk).values(*_FLAGS).first() or {}
    before = stored if instance.pk else {"is_active": True}
    changed = [name for name in _FLAGS if getattr(instance, name) != before.get(name, False)]
    if changed:
        detail = ", ".join(f"{name}: {'yes' if getattr(instance, name) else 'no'}" for name in changed)
        audit("rights_changed", instance if instance.pk else None, detail, about=instance.get_username())


def _person_saved(instance: User, created: bool, update_fields: frozenset[str] | None, **_: Any) -> None:
    if not created and not (update_fields and update_fields <= IRRELEVANT):
        touch([instance.pk])


def _user_deleted(instance: User, **_: Any) -> None:
    queries.keep_lines(instance)
    touch([instance.pk])
    touch_groups(instance.groups.values_list("pk", flat=True))


# A log-out is seen by its session's row going away. Django's signal user_logged_out comes before that: an
# open socket that asks again too early would still find the session.
def _session_ended(instance: Session, **_: Any) -> None:
    if user_id := instance.get_decoded().get(SESSION_KEY):
        touch([int(user_id)])


def _relation_changed(
    sender: type[Model], instance: Any, model: type[Model], action: str, pk_set: set[int] | None, **_: Any
) -> None:
    """Somebody, or a group, gets or loses groups, rights or people."""
    if action not in CHANGES or pk_set == set():
        return
    people = _people(instance, model, pk_set)
    touch(people)
    is_group = sender is User.groups.through
    if is_group:
        groups = [instance.pk] if isinstance(instance, Group) else pk_set
        touch_groups(instance.groups.values_list("pk", flat=True) if groups is None else groups)
    sign = "+" if action == "post_add" else "-"
    names = ["all"] if pk_set is None else map(str, model._default_manager.filter(pk__in=pk_set).order_by("pk"))
    audit(
        "groups_changed" if is_group else "rights_changed",
        instance if isinstance(instance, User) else None,
        ", ".join(f"{sign}{name}" for name in names),
        about=str(instance)[:200],
    )


def _people(instance: Any, model: type[Model], pk_set: set[int] | None) -> Iterable[int]:
    """Whose rights change where this user, group or permission gets or loses these rows of `model`; None: all."""
    if isinstance(instance, User):
        return [instance.pk]
    if model is User and pk_set is not None:
        return pk_set
    if isinstance(instance, Group):
        return queries.people_in([instance])
    return queries.people_with(instance) if pk_set is None else queries.people_in(pk_set)


def _group_deleted(instance: Group, **_: Any) -> None:
    touch(queries.people_in([instance]))
    touch_groups([instance.pk])
