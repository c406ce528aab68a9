"""API tokens: made, revoked, and who comes with one."""

import secrets

from django.contrib.auth.models import User
from django.db import transaction

from accounts import domain, handlers, queries
from accounts.errors import InactiveUser, InvalidName, MembersOnly, NotFound, Unauthorized
from accounts.models import ApiToken


def create_token(user: User, *, name: str) -> tuple[ApiToken, str]:
    """Give a person a new API token: the row, and the key, which is shown now and never again.

    `name` says what the token is for: 1 to 100 printable characters. Raises InvalidName, InactiveUser for
    somebody who could not use it, and MembersOnly for a guest, whom one captcha let in and not a program.
    """
    if not domain.is_name(name):
        raise InvalidName(limit=domain.NAME_LIMIT)
    if not user.is_active:
        raise InactiveUser(username=user.get_username())
    if queries.guest(user):
        raise MembersOnly
    key = domain.KEY_PREFIX + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        user=user, name=name.strip(), key_hash=domain.hashed(key), key_hint=domain.hint(key)
    )
    return token, key


def revoke_token(token_id: int, *, by: User | None) -> None:
    """Make an API token worthless at once, also for streams that it opened.

    People revoke their own; a superuser, or the system itself (`by=None`), revokes anybody's. Raises NotFound
    for a token that is not there, was revoked before, or is not theirs.
    """
    owner = None if by is None or by.is_superuser else by
    with transaction.atomic():
        user_id = queries.revoke(token_id, owner=owner)
        if user_id is None:
            raise NotFound
        handlers.touch([user_id])


def authenticate(key: str) -> User:
    """Whose API token this is. Notes its use, at most once a minute. Raises Unauthorized."""
    return token(key).user


def token(key: str) -> ApiToken:
    """The API token with this key, with its person. Notes its use as `authenticate` does. Raises Unauthorized."""
    found = queries.live_token(domain.hashed(key))
    if found is None:
        raise Unauthorized
    token, is_noted = found
    if not is_noted:
        queries.note_use(token)
    return token
