"""Secrets of the example environment (deploy/environment) that nobody replaced: a farm with a database of its own
refuses to start with them. Who knows the example could sign sessions, and read the metrics."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

_PLACEHOLDERS: Final = ("changeme", "placeholder", "replaceme", "djangoinsecure")
_FEWEST_LETTERS: Final = 5  # different ones, as Django's check of SECRET_KEY asks (security.W009)
# Characters. 32 of SECRET_KEY are 192 bits in base64, and Django asks for 50; a metrics token opens figures alone.
_SHORTEST: Final = {"SECRET_KEY": 32, "JOBFARM_METRICS_TOKEN": 16}
_DATABASES: Final = ("DATABASE_URL", "DATABASE_DIRECT_URL")


def complaints(environment: Mapping[str, str]) -> list[str]:
    """One sentence for each secret that is a placeholder or too short; it names the variable, and not the value.

    Only checked in an environment that names a database: the embedded one is for trying out.
    """
    if not environment.get("DATABASE_URL"):
        return []
    secrets = [(name, environment.get(name, "")) for name in _SHORTEST]
    passwords = [(name, _password(environment.get(name, ""))) for name in _DATABASES]
    return list(filter(None, (_wrong(name, value) for name, value in secrets + passwords)))


def _wrong(name: str, value: str) -> str:
    if not value:
        return ""
    if any(word in _letters(value) for word in _PLACEHOLDERS):
        return f"{name} holds the placeholder of an example: put a random value in its place (openssl rand -base64 48)."
    shortest = _SHORTEST.get(name, 0)
    if shortest and (len(value) < shortest or len(set(value)) < _FEWEST_LETTERS):
        return f"{name} can be guessed: give it at least {shortest} random characters (openssl rand -base64 48)."
    return ""


def _letters(value: str) -> str:
    return "".join(filter(str.isalpha, value.casefold()))


def _password(url: str) -> str:
    try:
        return unquote(urlsplit(url).password or "")
    except ValueError:  # no address; who connects to it says so
        return ""
