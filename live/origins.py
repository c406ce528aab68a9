"""Which pages may open the browsers' socket: those of this very site, and of the origins that the settings trust.

A socket carries the cookies of whoever opens it, and no CSRF token. Cookies know no port, and a site's by name alone is
also that of another program on the same machine: so scheme, name and port all count, as for Django's forms
(CSRF_TRUSTED_ORIGINS, https://docs.djangoproject.com/en/5.2/ref/csrf/).
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final
from urllib.parse import urlsplit

from channels.security.websocket import WebsocketDenier
from django.conf import settings
from django.http.request import split_domain_port, validate_host

Application = Callable[[Any, Any, Any], Awaitable[Any]]
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
Origin = tuple[str, str, int | None]


class SameOrigin:
    """Serves an application to pages of trusted origins alone; everybody else is answered with a 403."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        headers = {name: value.decode("latin1") for name, value in scope["headers"]}
        host, origin = headers.get(b"host", ""), headers.get(b"origin", "")
        serve = (
            self._application if is_trusted(origin, host=host, scheme=scope.get("scheme", "ws")) else WebsocketDenier()
        )
        return await serve(scope, receive, send)


def is_trusted(origin: str, *, host: str, scheme: str) -> bool:
    """Whether a page of this origin may open a socket at this host by this scheme (ws or wss; behind a proxy that says
    so with X-Forwarded-Proto, the browser's).

    The host must be one of ALLOWED_HOSTS: else a name of the attacker's that leads here would be its own origin.
    """
    page = _parts(origin)
    if page is None:
        return False
    secure = scheme in {"wss", "https"}
    if page == _parts(f"{'https' if secure else 'http'}://{host}"):
        return validate_host(split_domain_port(host)[0], settings.ALLOWED_HOSTS)
    return any(_matches(page, trusted) for trusted in settings.CSRF_TRUSTED_ORIGINS)


def _parts(origin: str) -> Origin | None:
    """Scheme, name and port; None for what is no origin of a page ("null", a path, an address without a name)."""
    try:
        split = urlsplit(origin)
        port = split.port or _DEFAULT_PORTS.get(split.scheme)
    except ValueError:
        return None
    if not split.hostname or split.path or split.query or split.fragment:
        return None
    return split.scheme, split.hostname, port


def _matches(page: Origin, trusted: str) -> bool:
    """Whether an origin is this one, or of a name below it where the setting says `https://*.example.org`."""
    wildcard = "://*." in trusted
    expected = _parts(trusted.replace("://*.", "://", 1))
    if expected is None or not wildcard:
        return page == expected
    scheme, name, port = expected
    return (page[0], page[2]) == (scheme, port) and page[1].endswith(f".{name}")
