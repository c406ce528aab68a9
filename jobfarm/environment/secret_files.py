"""Secrets from files of their own, as docker's secrets and systemd's LoadCredential provide them; and those of the
example environment (deploy/environment) that nobody replaced: a farm with a database of its own refuses to start with
them. Who knows the example could sign sessions, and read the metrics."""

from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from jobfarm.environment.table import VARIABLES

SUFFIX: Final = "_FILE"
_FILES: Final[Mapping[str, str]] = {v.name: f"{v.name}{SUFFIX}" for v in VARIABLES if v.is_secret}
_BY_FILE: Final = {file: name for name, file in _FILES.items()}


def names() -> frozenset[str]:
    return frozenset(_BY_FILE)


def pair(name: str) -> set[str]:
    """A variable, and the one that gives the same secret by file or by value, if there is such a one."""
    return {name, _BY_FILE.get(name, name), _FILES.get(name, name)}


def resolve(environ: MutableMapping[str, str]) -> list[str]:
    """Replace each NAME_FILE in `environ` with NAME and what the file holds, without the end of its line. Returns a
    sentence for each that cannot be read, or that is given in both ways."""
    complaints = []
    for name, file in _FILES.items():
        if path := environ.pop(file, ""):
            try:
                if environ.get(name):
                    raise ValueError(f"{name} and {file} are both set: leave one of them out.")
                environ[name] = _content(file, Path(path))
            except ValueError as error:
                complaints.append(str(error))
    return complaints


def _content(variable: str, path: Path) -> str:
    try:
        text = path.read_bytes().decode().rstrip("\r\n")
    except OSError as error:
        raise ValueError(f"{variable} names {path}, which cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise ValueError(f"{variable} names {path}, which is not a text in UTF-8.") from None
    if not text or not text.isprintable():
        raise ValueError(f"{variable} names {path}, which does not hold one line with the secret.")
    return text


_PLACEHOLDERS: Final = ("changeme", "placeholder", "replaceme", "djangoinsecure")
_FEWEST_LETTERS: Final = 5  # different ones, as Django's check of SECRET_KEY asks (security.W009)
# Characters. 32 of SECRET_KEY are 192 bits in base64, and Django asks for 50; a metrics token opens figures alone.
_SHORTEST: Final = {"SECRET_KEY": 32, "JOBFARM_METRICS_TOKEN": 16}
_DATABASES: Final = ("DATABASE_URL", "DATABASE_DIRECT_URL")


def complaints(environment: Mapping[str, str]) -> list[str]:
    """One sentence for each secret that is a placeholder or too short; it names the variable, and not the value. Only
    checked in an environment that names a database: the embedded one is for trying out."""
    if not environment.get("DATABASE_URL"):
        return []
    secrets = [(name, environment.get(name, "")) for name in _SHORTEST]
    passwords = [(name, _password(environment.get(name, ""))) for name in _DATABASES]
    return list(filter(None, (_wrong(name, value) for name, value in secrets + passwords)))


def _wrong(name: str, value: str) -> str:
    if not value:
        return ""
    letters = "".join(filter(str.isalpha, value.casefold()))
    if any(word in letters for word in _PLACEHOLDERS):
        return f"{name} holds the placeholder of an example: put a random value in its place (openssl rand -base64 48)."
    shortest = _SHORTEST.get(name, 0)
    if shortest and (len(value) < shortest or len(set(value)) < _FEWEST_LETTERS):
        return f"{name} can be guessed: give it at least {shortest} random characters (openssl rand -base64 48)."
    return ""


def _password(url: str) -> str:
    try:
        return unquote(urlsplit(url).password or "")
    except ValueError:  # no address; who connects to it says so
        return ""
