"""What the text of a variable may be: each function reads one, or raises ValueError with a sentence that names it."""

import importlib.util
import math
import re
from collections.abc import Callable
from ipaddress import IPv4Network, IPv6Network, ip_network
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

import jobfarm.storage
import postgres.configuration

Reader = Callable[[str, str], Any]

_FLAGS: Final = dict.fromkeys(("1", "true", "yes", "on"), True) | dict.fromkeys(("0", "false", "no", "off"), False)


def text(_name: str, raw: str) -> str:
    return raw


def flag(name: str, raw: str) -> bool:
    if raw.lower() not in _FLAGS:
        raise ValueError(f'{name} must be 1 (true, yes, on) or 0 (false, no, off), not "{raw}".')
    return _FLAGS[raw.lower()]


def whole(least: int, most: int | None = None) -> Reader:
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"

    def read(name: str, raw: str) -> int:
        is_number = re.fullmatch(r"[+-]?[0-9]{1,18}", raw)
        if not is_number or int(raw) < least or (most is not None and int(raw) > most):
            raise ValueError(f'{name} must be a whole number {bounds}, not "{raw}".')
        return int(raw)

    return read


def _bounded(bounds: str, is_right: Callable[[float], bool]) -> Reader:
    def read(name: str, raw: str) -> float:
        if (value := _number(raw)) is None or not is_right(value):
            raise ValueError(f'{name} must be a number {bounds}, not "{raw}".')
        return value

    return read


number = _bounded("of at least 0", lambda value: value >= 0)
positive = _bounded("above 0", lambda value: value > 0)


def one_of(*words: str) -> Reader:
    """One of these words, in small or capital letters."""

    def read(name: str, raw: str) -> str:
        for word in words:
            if raw.casefold() == word.casefold():
                return word
        raise ValueError(f'{name} must be one of {", ".join(words)}, not "{raw}".')

    return read


def words(_name: str, raw: str) -> list[str]:
    return raw.replace(",", " ").split()


def phrases(_name: str, raw: str) -> list[str]:
    """Words, and rows of words, with commas between them."""
    return [phrase.strip() for phrase in raw.split(",") if phrase.strip()]


def _each(pattern: str, form: str) -> Reader:
    """Phrases that all have this form."""

    def read(name: str, raw: str) -> list[str]:
        items = phrases(name, raw)
        for item in items:
            if not re.fullmatch(pattern, item):
                raise ValueError(f'{name} must hold {form}, not "{item}".')
        return items

    return read


hosts = _each(r"[^/]+", "names of hosts, such as farm.example.org")
origins = _each(r"https?://[^/\s]+", "origins, such as https://farm.example.org")


def address(name: str, raw: str) -> str:
    if not re.match(r"https?://[^/\s]", raw):
        raise ValueError(f'{name} must begin with http:// or https:// and a host; "{raw}" does not.')
    return raw


def addresses(name: str, raw: str) -> list[str]:
    """Addresses of HTTP, with commas between them."""
    return [address(name, one) for one in phrases(name, raw)]


def networks(name: str, raw: str) -> tuple[IPv4Network | IPv6Network, ...]:
    """Networks in CIDR notation, with commas or spaces between them."""
    items = []
    for word in words(name, raw):
        try:
            items.append(ip_network(word))
        except ValueError:
            raise ValueError(f'{name} must hold networks, such as 10.1.0.0/16, not "{word}".') from None
    return tuple(items)


def redis(name: str, raw: str) -> str:
    """The address of a Redis. It may hold a password: no sentence repeats it."""
    try:
        is_right = urlsplit(raw).scheme in {"redis", "rediss", "unix"} and urlsplit(raw).port != 0
    except ValueError:  # brackets that do not close, or a port that is none
        is_right = False
    if not is_right:
        raise ValueError(f"{name} must be written as redis://host:6379/0 (or rediss:// or unix://).")
    return raw


def database(name: str, raw: str) -> str:
    """The address of a PostgreSQL. It may hold a password: no sentence repeats it."""
    try:
        postgres.configuration.parse(raw, variable=name)
    except ImproperlyConfigured as error:
        raise ValueError(str(error)) from None
    return raw


def bucket(_name: str, raw: str) -> str:
    """Where files lie, as jobfarm.storage reads it."""
    jobfarm.storage.files(raw)
    return raw


def folder(name: str, raw: str) -> Path:
    path = Path(raw).resolve()
    if path.exists() and not path.is_dir():
        raise ValueError(f"{name} must be a folder, and {path} is none.")
    return path


def apps(name: str, raw: str) -> list[str]:
    items = words(name, raw)
    for app in items:
        if not is_importable(_module_of(app)):
            raise ValueError(f'{name} names "{app}", which Python does not find: PYTHONPATH must have its folder.')
    return items


def _number(raw: str) -> float | None:
    try:
        value = float(raw)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def is_importable(module: str) -> bool:
    """Whether there is a module of this dotted name; its packages are imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ModuleNotFoundError, ValueError):  # one of its packages is none; an empty name
        return False


def _module_of(app: str) -> str:
    """Where an app lies that is named by its package, or by the class of its configuration."""
    module, _, last = app.rpartition(".")
    return module if last[:1].isupper() else app
