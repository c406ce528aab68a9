"""Which wishes of a page are granted, and for which audience."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.db import InterfaceError, OperationalError

from live import errors, protocol, registry
from live.arguments import Arguments

logger = logging.getLogger("live")


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """This viewer may watch this, as one of this audience."""

    wish: protocol.Wish
    query: registry.StateQuery | registry.StreamQuery
    given: Arguments
    audience: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Not to be watched: because of an error, or (None) as if it did not exist."""

    wish: protocol.Wish
    error: errors.LiveError | None


Verdict = Granted | Refused


def refusal(user: AbstractBaseUser | AnonymousUser, wish: protocol.Wish) -> Refused | None:
    """Return the verdict on a wish that needs no look at the database: on one that makes no sense, and on one
    that nobody gets who is not logged in. None: it takes `judge`."""
    try:
        query = registry.find(wish.name)
        query.checked(wish.given)
    except errors.LiveError as error:
        return Refused(wish=wish, error=error)
    if query.is_for(registry.Viewer(user=user, ticket=wish.ticket)):
        return None
    return Refused(wish=wish, error=None)


def judge(user: AbstractBaseUser | AnonymousUser, wishes: Sequence[protocol.Wish]) -> list[Verdict]:
    """Return a verdict for each wish, in order. Reads the database, so call it in a thread."""
    return [_judge(user, wish) for wish in wishes]


def topics(wish: protocol.Wish) -> frozenset[str]:
    """Return the topics that may change the verdict; none for a wish that makes no sense."""
    try:
        query = registry.find(wish.name)
        return query.rights_topics(query.checked(wish.given))
    except errors.LiveError:
        return frozenset()


def _judge(user: AbstractBaseUser | AnonymousUser, wish: protocol.Wish) -> Verdict:
    try:
        query = registry.find(wish.name)
        given = query.checked(wish.given)
    except errors.LiveError as error:
        return Refused(wish=wish, error=error)
    try:
        audience = query.audience(registry.Viewer(user=user, ticket=wish.ticket), given)
    except (OperationalError, InterfaceError):
        raise  # no answer from the database is no verdict
    except Exception:
        logger.exception("The rights of the live query %s failed", query.name)
        return Refused(wish=wish, error=errors.QueryFailed())
    if audience is None:
        return Refused(wish=wish, error=None)
    return Granted(wish=wish, query=query, given=given, audience=audience)
