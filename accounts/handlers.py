"""What follows when a person's rights change: every watch of that person is checked again.

Topics `user:<id>`, and `group:<id>` for what is shown of a group's members. They cover what goes through the ORM's
objects: `QuerySet.update()` sends no signal, so code that changes rights that way touches the topic itself.
"""

from collections.abc import Iterable
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import Group, Permission, User
from django.contrib.sessions.models import Session
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_delete

from accounts import queries
from accounts.models import ApiToken, MemberGroup
from live import operations as live

CHANGES = {"post_add", "post_remove", "pre_clear"}  # after a clear nobody can say any more whom it hit
IRRELEVANT = {"last_login"}  # written at every log-in, and no right hangs on it


def connect() -> None:
    """Listen to every way in which rights change. Calling it twice does no more than calling it once."""
    post_save.connect(_person_saved, sender=User, dispatch_uid="accounts.person_saved")
    pre_delete.connect(_user_deleted, sender=User, dispatch_uid="accounts.user_deleted")
    post_delete.connect(_person_deleted, sender=User, dispatch_uid="accounts.person_deleted")
    post_delete.connect(_token_deleted, sender=ApiToken, dispatch_uid="accounts.token_deleted")
    post_delete.connect(_session_ended, sender=Session, dispatch_uid="accounts.session_ended")
    m2m_changed.connect(_membership, sender=User.groups.through, dispatch_uid="accounts.membership")
    m2m_changed.connect(_own_right, sender=User.user_permissions.through, dispatch_uid="accounts.own_right")
    m2m_changed.connect(_groups_right, sender=Group.permissions.through, dispatch_uid="accounts.groups_right")
    post_save.connect(_group_saved, sender=MemberGroup, dispatch_uid="accounts.group_saved")
    pre_delete.connect(_group_deleted, sender=Group, dispatch_uid="accounts.group_deleted")
    pre_delete.connect(_permission_deleted, sender=Permission, dispatch_uid="accounts.permission_deleted")


def touch(user_ids: Iterable[int]) -> None:
    """Say that these people's rights may have changed; published after the commit."""
    live.touch(*(f"user:{user_id}" for user_id in user_ids))


def touch_groups(group_ids: Iterable[int]) -> None:
    """Say that who is in these groups, or how one gets in, changed; published after the commit."""
    live.touch(*(f"group:{group_id}" for group_id in group_ids))


def _person_saved(instance: User, created: bool, update_fields: frozenset[str] | None, **_: Any) -> None:
    if not created and not (update_fields and update_fields <= IRRELEVANT):
        touch([instance.pk])


def _person_deleted(instance: User, **_: Any) -> None:
    touch([instance.pk])


def _user_deleted(instance: User, **_: Any) -> None:
    touch_groups(instance.groups.values_list("pk", flat=True))


def _token_deleted(instance: ApiToken, **_: Any) -> None:
    touch([instance.user_id])


# A log-out is seen by its session's row going away. Django's signal user_logged_out comes before that: an
# open socket that asks again too early would still find the session.
def _session_ended(instance: Session, **_: Any) -> None:
    if user_id := instance.get_decoded().get(SESSION_KEY):
        touch([int(user_id)])


def _group_saved(instance: MemberGroup, **_: Any) -> None:
    touch_groups([instance.pk])


def _membership(instance: User | Group, action: str, pk_set: set[int] | None, **_: Any) -> None:
    if action not in CHANGES:
        return
    if isinstance(instance, User):
        touch([instance.pk])
        touch_groups(instance.groups.values_list("pk", flat=True) if pk_set is None else pk_set)
    else:
        touch(queries.people_in([instance]) if pk_set is None else pk_set)
        touch_groups([instance.pk])


def _own_right(instance: User | Permission, action: str, pk_set: set[int] | None, **_: Any) -> None:
    if action not in CHANGES:
        return
    if isinstance(instance, User):
        touch([instance.pk])
    else:
        touch(queries.people_with(instance) if pk_set is None else pk_set)


def _groups_right(instance: Group | Permission, action: str, pk_set: set[int] | None, **_: Any) -> None:
    if action not in CHANGES:
        return
    if isinstance(instance, Group):
        touch(queries.people_in([instance]))
    else:
        touch(queries.people_with(instance) if pk_set is None else queries.people_in(pk_set))


def _group_deleted(instance: Group, **_: Any) -> None:
    touch(queries.people_in([instance]))
    touch_groups([instance.pk])


def _permission_deleted(instance: Permission, **_: Any) -> None:
    touch(queries.people_with(instance))
