"""Addresses that are no URL of others: an app of the farm takes what is sent there by itself."""

from collections.abc import Callable
from dataclasses import dataclass

from outbox.domain import addresses


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheme:
    """`check(url)` raises BadUrl; `take(url, event, message_id=, owner=)` does, in a transaction of its own, what is to
    be done about an event, the object that others are sent; a Refusal is why it is for nobody."""

    check: Callable[[str], None]
    take: Callable[..., None]


_SCHEMES: dict[str, Scheme] = {}


def register(name: str, *, check: Callable[[str], None], take: Callable[..., None]) -> None:
    """Let what is sent to `name:...` be taken so. To be called where an app is loaded, in its `hooks.py`."""
    _SCHEMES[name] = Scheme(check=check, take=take)


def of(url: str) -> Scheme | None:
    return _SCHEMES.get(url.partition(":")[0])


def check(url: str) -> None:
    """Raise BadUrl for what nothing can be sent to."""
    if (scheme := of(url)) is None:
        addresses.target(url)
    else:
        scheme.check(url)
