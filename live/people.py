"""Who sits behind a socket: the person of a session, read from the database each time."""

from importlib import import_module
from typing import Any, cast

from django.conf import settings
from django.contrib import auth
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import AnonymousUser
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest


def of_session(session_key: str | None) -> AbstractBaseUser | AnonymousUser:
    """Return the person who is logged in with this session, or AnonymousUser.

    Django's own rules apply: a session that ended or expired, a changed password, a deleted or inactive
    person give AnonymousUser. Only reads the database; call it in a thread.
    """
    if not session_key:
        return AnonymousUser()
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
