"""Who is new: an account that somebody signs up for, or a guest's that becomes theirs; and whom an OpenID provider or a
proxy names, whose claims are followed at each log-in."""

from collections.abc import Iterable
from typing import Final

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, User
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from accounts import domain, limits, queries
from accounts.errors import InactiveUser, InvalidUsername, MixedScripts, SignUpClosed, UsernameTaken
from ratelimits import operations as ratelimits

STAFF: Final = "staff"
SUPERUSER: Final = "superuser"
USERNAME_LIMIT = 150  # of Django's column


def begin_sign_up(*, address: str) -> None:
    """Count a try of this address (a key), whatever becomes of it: nobody finds out by the thousand which names are
    taken. Raises RateLimited."""
    ratelimits.limit(limits.SIGN_UP_TRY, key=address, throws=True)


def check_username(username: str) -> str:
    """This name as it is stored, if somebody new may have it. Raises InvalidUsername, MixedScripts, and UsernameTaken,
    also for a name that differs in capitals alone, or that would be taken for the farm's own."""
    name = fit_username(username)
    if queries.called(name):
        raise UsernameTaken(username=name)
    return name


def sign_up(username: str, *, password: str | None, email: str = "", guest: User | None = None) -> User:
    """A new person with this name, which `check_username` found good, and this password, which Django's validators did.

    A `guest` becomes that person, with all that is theirs. Accounts count for the whole farm. Raises SignUpClosed,
    UsernameTaken, RateLimited.
    """
    if not settings.JOBFARM["SIGN_UP"]:
        raise SignUpClosed
    fields = {"username": username, "email": User.objects.normalize_email(email), "password": make_password(password)}
    try:
        with transaction.atomic():
            # Its one row is locked to the end: of two names that differ in capitals alone the second sees the first.
            ratelimits.limit(limits.SIGN_UP, throws=True)
            if queries.called(username):
                raise UsernameTaken(username=username)
            return _stored(fields, guest)
    except IntegrityError as error:
        raise UsernameTaken(username=username) from error


def fit_username(username: str) -> str:
    """The same, without a look at who has it."""
    name = User.normalize_username(username.strip())
    try:
        UnicodeUsernameValidator()(name)
    except ValidationError:
        raise InvalidUsername(limit=USERNAME_LIMIT) from None
    if len(name) > USERNAME_LIMIT:
        raise InvalidUsername(limit=USERNAME_LIMIT)
    if domain.mixes_scripts(name):
        raise MixedScripts(username=name)
    if domain.is_reserved(name):
        raise UsernameTaken(username=name)
    return name


def _stored(fields: dict[str, str], guest: User | None) -> User:
    row = queries.lock_guest(guest.pk) if guest else None
    if row is None:  # nobody, or a guest who signed up in another window or was seen off: a new account
        return User.objects.create(**fields)
    user = row.user
    for field, value in fields.items():
        setattr(user, field, value)
    user.save(update_fields=list(fields))
    row.delete()
    return User.objects.get(pk=user.pk)


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
