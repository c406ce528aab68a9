"""API tokens: made, revoked, and who comes with one."""

import secrets
from collections.abc import Iterable
from datetime import timedelta
from operator import attrgetter
from typing import Final

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F
from django.db.models.functions import Now

from accounts import domain, errors, handlers, queries
from accounts.models import ApiToken
from core.recent import Recent
from postgres import clock, statements
from postgres.statements import Row
from scheduling import operations as scheduling

_TOKEN, _PERSON = ([field.attname for field in model._meta.concrete_fields] for model in (ApiToken, User))
_token_of, _person_of = attrgetter(*_TOKEN), attrgetter(*(f"person_{name}" for name in _PERSON))
# Tokens that this process has looked up, by the hashes of their keys.
_RECENT: Final[Recent[Row]] = Recent(for_s=5.0)


def create_token(
    user: User,
    *,
    name: str,
    scopes: Iterable[str] = domain.SCOPES,
    days: float | None = None,
    keep_content: bool = True,
) -> tuple[ApiToken, str]:
    """Give a person a new API token: the row, and the key, which is shown now and never again.

    `name` says what the token is for: 1 to 100 printable characters. `scopes` are what it may do, some of
    domain.SCOPES; `days` how long it is good (None: until it is revoked). Without `keep_content` what its jobs were
    given and gave is deleted minutes after their end. Raises InvalidName, NoScope, InvalidDays,
    InactiveUser for somebody who could not use it, TooManyTokens, and MembersOnly for a guest, whom one captcha let in
    and not a program.
    """
    scope_words = domain.scope_text(scopes)
    if not scope_words:
        raise errors.NoScope(scopes=", ".join(domain.SCOPES))
    if days is not None and not 0 < days <= domain.LONGEST_DAYS:
        raise errors.InvalidDays(most=domain.LONGEST_DAYS)
    if not domain.is_name(name):
        raise errors.InvalidName(limit=domain.NAME_LIMIT)
    if not user.is_active:
        raise errors.InactiveUser(username=user.get_username())
    if queries.guest(user):
        raise errors.MembersOnly
    key = domain.KEY_PREFIX + secrets.token_urlsafe(32)
    expires_at = None if days is None else clock.now() + timedelta(days=days)
    if queries.tokens_of(user).count() >= domain.TOKENS_LIMIT:
        raise errors.TooManyTokens(limit=domain.TOKENS_LIMIT)
    with transaction.atomic():
        token = ApiToken.objects.create(
            user=user, name=name.strip(), key_hash=domain.hashed(key), key_hint=key[: domain.HINT_LENGTH],
            scopes=scope_words, expires_at=expires_at, keep_content=keep_content,
        )  # fmt: skip
        if expires_at is not None:
            scheduling.run_at(expires_at, end_tokens)
        handlers.audit("token_created", user, f"{token}: {scope_words}{'' if keep_content else ', keeps no content'}")
    return token, key


def revoke_token(token_id: int, *, by: User | None) -> None:
    """Make an API token worthless at once, also for streams that it opened.

    People revoke their own; a superuser, or the system itself (`by=None`), revokes anybody's. Raises NotFound
    for a token that is not there, was revoked before, or is not theirs.
    """
    tokens = ApiToken.objects.filter(pk=token_id, **({} if by is None or by.is_superuser else {"user": by}))
    with transaction.atomic():
        if not tokens.filter(revoked_at=None).update(revoked_at=Now()):
            raise errors.NotFound
        token = tokens.select_related("user").get()
        handlers.touch([token.user_id])
        handlers.audit("token_revoked", token.user, str(token))


@scheduling.mutation
def end_tokens() -> int:
    """Revoke the tokens that ran out, so that the streams which they opened end too; how many. They open nothing new
    from the moment on that was named for them."""
    ended = ApiToken.objects.select_for_update().filter(revoked_at=None, expires_at__lte=Now()).order_by("pk")
    people = dict(ended.values_list("pk", "user_id"))
    ApiToken.objects.filter(pk__in=people).update(revoked_at=F("expires_at"))
    handlers.touch(people.values())
    return len(people)


def recognize(key: str, *, address: str = "") -> ApiToken:
    """`token`, or the token as this process read it some seconds ago for a call from there: then what is done for it
    has to look whether its `versions` are those of the rows still (docs/adr/0115). Raises Unauthorized."""
    row = _RECENT.get(address + domain.hashed(key))
    return token(key, address=address) if row is None else _of_row(row, is_remembered=True)


def token(key: str, *, address: str = "") -> ApiToken:
    """The API token with this key, with its person. Notes its use, at most once a minute, and in the audit log the
    first one from an address. Raises Unauthorized, also for one that was revoked, ran out, or whose person may not
    log in."""
    params = {"key_hash": domain.hashed(key), "address": address, "most": domain.ADDRESSES_LIMIT}
    params["every_s"] = queries.USE_NOTED_EVERY.total_seconds()
    row = next(iter(statements.load("accounts", "token_by_hash").run(params)), None)
    if row is None:
        raise errors.Unauthorized
    token = _of_row(row)
    if row.is_noted:
        _RECENT.keep(address + domain.hashed(key), row)
    elif queries.note_use(token, address=address):
        handlers.audit("token_from_new_address", token.user, str(token), address=address)
    return token


def _of_row(row: Row, *, is_remembered: bool = False) -> ApiToken:
    """The token of this row with its user; what acts for one `is_remembered` looks whether it is still that version."""
    token = ApiToken.from_db("default", _TOKEN, _token_of(row))
    token.user = User.from_db("default", _PERSON, _person_of(row))
    token.versions = (row.version, row.person_version) if is_remembered else None
    return token
