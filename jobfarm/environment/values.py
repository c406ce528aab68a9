"""What the text of a variable may be: each function reads one, or raises ValueError with a sentence that names it."""

import importlib.util
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

import jobfarm.storage
import postgres.configuration

Reader = Callable[[str, str], Any]

_FLAGS: Final = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}


def text(_name: str, given: str) -> str:
    """Any."""
    return given


def flag(name: str, given: str) -> bool:
    """Yes or no."""
    if given.lower() not in _FLAGS:
        raise ValueError(f'{name} must be 1 (true, yes, on) or 0 (false, no, off), not "{given}".')
    return _FLAGS[given.lower()]


def whole(least: int, most: int | None = None) -> Reader:
    """A whole number within bounds."""
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"

    def read(name: str, given: str) -> int:
        is_number = re.fullmatch(r"[+-]?[0-9]{1,18}", given)
        if not is_number or int(given) < least or (most is not None and int(given) > most):
            raise ValueError(f'{name} must be a whole number {bounds}, not "{given}".')
        return int(given)

    return read


def number(name: str, given: str) -> float:
    """A number that is not negative."""
    if (value := _number(given)) is None or value < 0:
        raise ValueError(f'{name} must be a number of at least 0, not "{given}".')
    return value


def positive(name: str, given: str) -> float:
    """A number above 0."""
    if (value := _number(given)) is None or value <= 0:
        raise ValueError(f'{name} must be a number above 0, not "{given}".')
    return value


def one_of(*words: str) -> Reader:
    """One of these words, in small or capital letters."""

    def read(name: str, given: str) -> str:
        for word in words:
            if given.casefold() == word.casefold():
                return word
        raise ValueError(f'{name} must be one of {", ".join(words)}, not "{given}".')

    return read


def words(_name: str, given: str) -> list[str]:
    """Words with commas or spaces between them."""
    return given.replace(",", " ").split()


def phrases(_name: str, given: str) -> list[str]:
    """Words, and rows of words, with commas between them."""
    return [phrase.strip() for phrase in given.split(",") if phrase.strip()]


def hosts(name: str, given: str) -> list[str]:
    """Names of hosts, with commas between them."""
    found = phrases(name, given)
    for host in found:
        if "/" in host:
            raise ValueError(f'{name} must hold names of hosts, such as farm.example.org, not "{host}".')
    return found


def origins(name: str, given: str) -> list[str]:
    """Schemes with hosts, with commas between them."""
    found = phrases(name, given)
    for origin in found:
        if not re.fullmatch(r"https?://[^/\s]+", origin):
            raise ValueError(f'{name} must hold origins, such as https://farm.example.org, not "{origin}".')
    return found


def address(name: str, given: str) -> str:
    """One of HTTP."""
    if not re.match(r"https?://[^/\s]", given):
        raise ValueError(f'{name} must begin with http:// or https:// and a host; "{given}" does not.')
    return given


def addresses(name: str, given: str) -> list[str]:
    """Addresses of HTTP, with commas between them."""
    return [address(name, one) for one in phrases(name, given)]


def redis(name: str, given: str) -> str:
    """The address of a Redis. It may hold a password: no sentence repeats it."""
    try:
        is_right = urlsplit(given).scheme in {"redis", "rediss", "unix"} and urlsplit(given).port != 0
    except ValueError:  # brackets that do not close, or a port that is none
        is_right = False
    if not is_right:
        raise ValueError(f"{name} must be written as redis://host:6379/0 (or rediss:// or unix://).")
    return given


def database(name: str, given: str) -> str:
    """The address of a PostgreSQL. It may hold a password: no sentence repeats it."""
    try:
        postgres.configuration.parse(given, variable=name)
    except ImproperlyConfigured as error:
        raise ValueError(str(error)) from None
    return given


def bucket(_name: str, given: str) -> str:
    """Where files lie, as jobfarm.storage reads it."""
    jobfarm.storage.files(given)
    return given


def folder(name: str, given: str) -> Path:
    """A folder, whether it is there or not."""
    path = Path(given).resolve()
    if path.exists() and not path.is_dir():
        raise ValueError(f"{name} must be a folder, and {path} is none.")
    return path


def apps(name: str, given: str) -> list[str]:
    """Names of apps that Python finds."""
    found = words(name, given)
    for app in found:
        if not _is_found(app.partition(".")[0]):
            raise ValueError(
                f'{name} names "{app}", which Python does not find: PYTHONPATH must have its folder.'
            )
    return found


def _number(given: str) -> float | None:
    try:
        value = float(given)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _is_found(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ValueError:  # an empty name
        return False
