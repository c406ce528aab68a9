"""What an OpenID provider says of its people is followed at each log-in: groups, and who is staff."""

from collections.abc import Iterable
from typing import Final

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import transaction

from accounts import queries
from accounts.errors import InactiveUser
from accounts.operations.signup import fit_username

STAFF: Final = "staff"
SUPERUSER: Final = "superuser"


@transaction.atomic
def person_of_proxy(username: str, *, email: str, groups: Iterable[str] | None) -> User:
    """Whom a proxy in front of this farm names, made if they are new; these groups of theirs are followed (None: it
    does not say). Names of the farm's own, an administrator's `admin` among them, are nobody's there. Raises
    InvalidUsername, MixedScripts, UsernameTaken for a name that is no good, and InactiveUser."""
    name = fit_username(username)
    user = queries.called(name) or User.objects.create_user(name, email)
    if not user.is_active:
        raise InactiveUser(username=name)
    if groups is not None:
        follow_claims(user, groups)
    return user


@transaction.atomic
def follow_claims(user: User, claimed: Iterable[str]) -> None:
    """Put somebody into the groups that OIDC_GROUP_MAP names for these of the provider, and take them out of the others
    that it names. `staff` and `superuser` in it are no groups, but what they say.

    Groups that members made are left alone: nobody gets rights by having made up a name.
    """
    mapped: list[tuple[str, str]] = settings.OIDC_GROUP_MAP
    named = {str(group) for group in claimed}
    granted = {here for there, here in mapped if there in named}
    governed = {here for _, here in mapped}
    for name in sorted(governed - {STAFF, SUPERUSER}):
        group, _ = Group.objects.get_or_create(name=name)
        if queries.member_group(group.pk) is None and queries.is_member(user, group) != (name in granted):
            (user.groups.add if name in granted else user.groups.remove)(group)
    if STAFF in governed or SUPERUSER in governed:
        user.is_superuser = SUPERUSER in granted if SUPERUSER in governed else user.is_superuser
        user.is_staff = bool(granted & {STAFF, SUPERUSER})
        user.save(update_fields=["is_superuser", "is_staff"])
