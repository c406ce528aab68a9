"""From what is asked to what is stored: which configuration counts, and how a key is written."""

import hashlib
import re

from ratelimits import limits, queries
from ratelimits.domain import Config, FixedWindow, TokenBucket
from ratelimits.domain.algebra import possible
from ratelimits.errors import InvalidConfig, UnknownLimit
from ratelimits.models import KEY_LIMIT
from ratelimits.operations import made

_STANDS_FOR_ANOTHER = re.compile(r"#[0-9a-f]{64}\Z")
_KEPT = KEY_LIMIT - 65  # characters of a long key that stay readable before its hash


def config_of(name: str, config: Config | None = None) -> Config:
    """The configuration that counts: the one given, else the one declared, else the one that a person made.
    Raises UnknownLimit, InvalidName."""
    if config is not None:
        return _checked(name, config)
    if (known := limits.declared(limits.checked(name)) or made.find(name)) is None:
        raise UnknownLimit(name=name)
    return known


def stored_key(key: str | None) -> str:
    """The key as the table holds it: "" for None, and any text that does not fit (too long, empty, with characters that
    PostgreSQL cannot hold) by its hash, so that what strangers type into a log-in form is always a key."""
    if key is None:
        return ""
    if 0 < len(key) <= KEY_LIMIT and key.isprintable() and not _is_a_hash(key):
        return key
    readable = "".join(character for character in key[:_KEPT] if character.isprintable())
    return f"{readable}#{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()}"


def request(name: str, key: str | None, count: float, reserve: bool, config: Config | None) -> queries.Request:
    """What the database is asked. Raises UnknownLimit, InvalidName, InvalidCount, CountExceedsLimit."""
    known = config_of(name, config)
    number = possible(known, count=count, reserve=reserve)
    return queries.Request(name=name, key=stored_key(key), config=known, count=number, reserve=reserve)


def _is_a_hash(key: str) -> bool:
    return key[-65:-64] == "#" and _STANDS_FOR_ANOTHER.search(key) is not None


def _checked(name: str, config: Config) -> Config:
    limits.checked(name)
    if not isinstance(config, TokenBucket | FixedWindow):
        raise InvalidConfig(field="config", why=f"not a TokenBucket or a FixedWindow: {config!r}")
    return config
