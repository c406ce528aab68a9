"""Who sits behind a socket, and which watch requests of a page are granted, for which audience."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from django.conf import settings
from django.contrib import auth
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.base import SessionBase
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest

from live import errors, protocol, registry
from live.registry import Arguments

logger = logging.getLogger("live")


def of_session(session_key: str) -> AbstractBaseUser | AnonymousUser:
    """Return the person who is logged in with this session, or AnonymousUser.

    Django's own rules apply: a session that ended or expired, a changed password, a deleted or inactive
    person give AnonymousUser. Only reads the database; call it in a thread.
    """
    request = HttpRequest()
    content = import_module(settings.SESSION_ENGINE).SessionStore(session_key).load()
    request.session = cast("SessionBase", _AsItIs(content))
    return auth.get_user(request)


class _AsItIs(dict[str, Any]):
    """A session's content. What Django would renew or end is left to a request, which can set a cookie.

    With SECRET_KEY_FALLBACKS, `get_user` moves the session to a new key; from here the browser would never
    learn of it, and would be logged out.
    """

    def cycle_key(self) -> None:
        """Not here."""

    def flush(self) -> None:
        """Not here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    request: protocol.WatchRequest
    query: registry.StateQuery | registry.StreamQuery
    arguments: Arguments
    audience: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Not to be watched: because of an error, or (None) as if it did not exist."""

    request: protocol.WatchRequest
    error: errors.LiveError | None


WatchDecision = Granted | Refused


def refusal(user: AbstractBaseUser | AnonymousUser, request: protocol.WatchRequest) -> Refused | None:
    """Return the verdict on a request that needs no read of the database: on one that makes no sense, and on one
    that nobody gets who is not logged in. None: it takes `judge`."""
    try:
        query = registry.find(request.name)
        arguments = query.checked(request.arguments)
        _ = query.topics(arguments), query.rights_topics(arguments)
    except errors.LiveError as error:
        return Refused(request=request, error=error)
    except Exception:  # of one query of a page; the others are not to suffer for it
        logger.exception("The topics of the live query %s failed", request.name)
        return Refused(request=request, error=errors.QueryFailed())
    if query.is_for(registry.Viewer(user=user, ticket=request.ticket)):
        return None
    return Refused(request=request, error=None)


def judge(user: AbstractBaseUser | AnonymousUser, requests: Sequence[protocol.WatchRequest]) -> list[WatchDecision]:
    """Return a verdict for each request that `refusal` let pass, in order. Reads the database, so call it in a
    thread."""
    return [_judge(user, request) for request in requests]


def topics(request: protocol.WatchRequest) -> frozenset[str]:
    """Return the topics that may change the verdict on a request that `refusal` let pass."""
    query = registry.find(request.name)
    return query.rights_topics(query.checked(request.arguments))


def _judge(user: AbstractBaseUser | AnonymousUser, request: protocol.WatchRequest) -> WatchDecision:
    query = registry.find(request.name)
    arguments = query.checked(request.arguments)
    try:
        audience = query.audience(registry.Viewer(user=user, ticket=request.ticket), arguments)
    except (OperationalError, InterfaceError):
        raise  # no answer from the database is no verdict
    except Exception:
        logger.exception("The rights of the live query %s failed", query.name)
        return Refused(request=request, error=errors.QueryFailed())
    if audience is None:
        return Refused(request=request, error=None)
    return Granted(request=request, query=query, arguments=arguments, audience=audience)
