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


def begin_sign_up(*, address: str) -> None:
    """Count a try of this address (a key), whatever becomes of it: nobody finds out by the thousand which names are
    taken. Raises RateLimited."""
    ratelimits.limit(limits.SIGN_UP_TRY, key=address, throws=True)


def check_username(username: str) -> str:
    """This name as it is stored, if somebody new may have it.

    Raises InvalidUsername, MixedScripts, and UsernameTaken, also for a name that differs in capitals alone, or that
    would be taken for the farm's own.
    """
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
