from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import Group, User

from accounts import domain, queries
from live.registry import Viewer, live_query

MEMBER = "member"


@live_query(
    "group-members", topics=lambda group_id: [f"group:{group_id}"], audiences=(MEMBER,),
    template="accounts/live/members.html",
)  # fmt: skip
def group_members(*, group_id: int) -> Mapping[str, Any] | None:
    """Everybody in a group; who has been in it longest comes first and keeps it."""
    group = Group.objects.filter(pk=group_id).first()
    if group is None:
        return None
    is_kept = queries.member_group(group_id) is not None
    return {"members": queries.members(group), "is_kept": is_kept, "limit": domain.MEMBERS_LIMIT if is_kept else None}


@group_members.may_see
def _(viewer: Viewer, *, group_id: int) -> str | None:
    user = viewer.user
    return MEMBER if isinstance(user, User) and user.groups.filter(pk=group_id).exists() else None
