"""The named limits. Every app may have a `limits.py`, which is found by itself; `declare` in it makes a limit known."""

import re
from functools import lru_cache
from typing import Any

from ratelimits.domain import Config
from ratelimits.errors import InvalidName, UnknownLimit

# Also a string of the RateLimit header fields, as it is. A space may be in it, not at its ends.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:/ -]{0,98}[A-Za-z0-9_.:/-])?")

_declared: dict[str, Config] = {}


def declare(name: str, config: Config) -> str:
    """Make a limit known to this process and return its name. Raises InvalidName, ValueError if another has it."""
    if _declared.setdefault(checked(name), config) != config:
        raise ValueError(f"the limit {name!r} is declared twice with different configurations")
    return name


def find(name: str) -> Config:
    """The limit of this name that code declares. Raises UnknownLimit."""
    if (config := declared(name)) is None:
        raise UnknownLimit(name=name)
    return config


def declared(name: str) -> Config | None:
    """The limit of this name that code declares; None if there is none."""
    return _declared.get(name)


def everything() -> dict[str, Config]:
    return dict(sorted(_declared.items()))


@lru_cache(maxsize=4096)
def checked(name: str) -> str:
    """The name as it is. Raises InvalidName."""
    candidate: Any = name
    if not isinstance(candidate, str) or not _NAME.fullmatch(name):
        raise InvalidName(name=name)
    return name
