"""Signing up: a new account, or a guest's account that becomes a person's."""

from django.conf import settings
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from accounts import domain, limits, queries
from accounts.errors import InvalidUsername, MixedScripts, SignUpClosed, UsernameTaken
from ratelimits import operations as ratelimits

USERNAME_LIMIT = 150  # of Django's column


def sign_up(username: str, *, password: str, email: str = "", address: str, guest: User | None = None) -> User:
    """A new person with this name and password. A `guest` becomes that person, with all that is theirs.

    The password was found good by Django's validators (the form asks them). Tries count by address (a key), accounts
    that come of them for the whole farm. Raises SignUpClosed, InvalidUsername, UsernameTaken (also for a name that
    differs in capitals alone, or that would be taken for the farm's own), MixedScripts, RateLimited.
    """
    if not settings.JOBFARM["SIGN_UP"]:
        raise SignUpClosed
    ratelimits.limit(limits.SIGN_UP_TRY, key=address, throws=True)
    name = _checked(username)
    fields = {"username": name, "email": User.objects.normalize_email(email), "password": make_password(password)}
    try:
        with transaction.atomic():
            # Its one row is locked to the end: of two names that differ in capitals alone the second sees the first.
            ratelimits.limit(limits.SIGN_UP, throws=True)
            if queries.has_name(name):
                raise UsernameTaken(username=name)
            return _stored(fields, guest)
    except IntegrityError as error:
        raise UsernameTaken(username=name) from error


def check_username(username: str, *, address: str) -> None:
    """Refuse a name that `sign_up` would refuse, for a form with other faults: people see all of them at once.

    It counts as a try of this address, so that nobody finds out by the thousand which names are taken. Raises
    InvalidUsername, UsernameTaken, MixedScripts, RateLimited.
    """
    ratelimits.limit(limits.SIGN_UP_TRY, key=address, throws=True)
    name = _checked(username)
    if queries.has_name(name):
        raise UsernameTaken(username=name)


def _checked(username: str) -> str:
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
