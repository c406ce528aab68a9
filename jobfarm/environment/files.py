"""Settings from files: the environment file, and files of one secret each.

The environment file has lines of NAME=value that mean the same to systemd, to docker and to us. The three differ in
quotes, backslashes, `$`, `#`, `export` and spaces at the ends (docs/adr/0068). A line on which they differ is refused,
so what is left needs no rules: the value is what stands behind the first `=`.

Secrets come from files of their own, as docker's secrets and systemd's LoadCredential provide them. Those of the
example environment (deploy/environment) that nobody replaced are refused by a farm with a database of its own: who
knows the example could sign sessions, and read the metrics."""

import os
import re
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from core.commands import CODE, IS_CHECKOUT
from jobfarm.environment.table import VARIABLES

VARIABLE: Final = "JOBFARM_ENV_FILE"
NAME: Final = "jobfarm.env"
OF_THE_MACHINE: Final = Path("/etc/jobfarm/environment")
_LINE: Final = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_OTHERS_MAY_WRITE: Final = 0o022
_DIFFERENCES: Final[Mapping[str, str]] = {
    r".*[\x00-\x1f\x7f]": "holds a control character",
    r"\s|.*\s\Z": "begins or ends with a space, which docker keeps and systemd drops",
    r"[\"']": "begins with a quote, which docker keeps and systemd drops: leave the quotes out, spaces need none",
    r".*\\": "holds a backslash, which systemd and docker read differently",
    r".*\$": "holds a $, which compose replaces: write %24 in an address, or choose another secret",
    r".*#": "holds a #, where compose begins a comment: write %23 in an address, or choose another secret",
}
SUFFIX: Final = "_FILE"
_FILES: Final[Mapping[str, str]] = {v.name: f"{v.name}{SUFFIX}" for v in VARIABLES if v.is_secret}
_PLACEHOLDERS: Final = ("changeme", "placeholder", "replaceme", "djangoinsecure")
_FEWEST_LETTERS: Final = 5  # different ones, as Django's check of SECRET_KEY asks (security.W009)
# Characters. 32 of SECRET_KEY are 192 bits in base64, and Django asks for 50; a metrics token opens figures alone.
_SHORTEST: Final = {"SECRET_KEY": 32, "JOBFARM_METRICS_TOKEN": 16}
_DATABASES: Final = ("DATABASE_URL", "DATABASE_DIRECT_URL")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a file says, and a sentence for each line, or for the whole file, that cannot be used."""

    values: Mapping[str, str] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)


def find(environ: Mapping[str, str]) -> Contents:
    """Read the file that JOBFARM_ENV_FILE names (empty: none), else the first that is there of `jobfarm.env` in the
    checkout, `jobfarm.env` in the working directory and /etc/jobfarm/environment."""
    named = environ.get(VARIABLE)
    places = [*([CODE / NAME] if IS_CHECKOUT else []), _here() / NAME, OF_THE_MACHINE]
    path = next(filter(_is_there, places), None) if named is None else Path(named) if named else None
    if path is None:
        return Contents()
    try:
        return Contents(complaints=[theirs]) if (theirs := _somebody_elses(path, named)) else _read(path)
    except OSError as error:
        return Contents(complaints=[_unreadable(path, named, error)])


def parse(text: str, *, name: str) -> Contents:
    values: dict[str, str] = {}
    complaints = []
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            values.update(_assignments(line.removesuffix("\r").lstrip(" \t")))
        except ValueError as error:
            complaints.append(f"{name}, line {number}: {error}.")
    return Contents(values=values, complaints=complaints)


def _assignments(line: str) -> Iterator[tuple[str, str]]:
    """The one of this line, or none. Raises ValueError, which never repeats a value: it may be a secret."""
    if not line or line.startswith("#"):
        if line.endswith("\\"):
            raise ValueError("a comment that ends with a backslash hides the next line from systemd")
        return
    if line.startswith("export"):
        raise ValueError("leave out `export`, which systemd and docker do not know")
    match = _LINE.fullmatch(line)
    if match is None:
        raise ValueError("it is not NAME=value, with no space around the =")
    for difference, why in _DIFFERENCES.items():
        if re.match(difference, match[2], re.DOTALL):
            raise ValueError(f"{match[1]} {why}")
    yield match[1], match[2]


def _read(path: Path) -> Contents:
    try:
        return parse(path.read_bytes().decode(), name=str(path))
    except UnicodeDecodeError:
        return Contents(complaints=[f"{path} is not a text in UTF-8."])


def _here() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # it was deleted
        return CODE


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # it is there, or its folder is closed to us: reading says so
        return True


def _somebody_elses(path: Path, named: str | None) -> str:
    """A file that merely lies where a command was typed decides which code is run: it has to be ours."""
    if named is not None or path.name != NAME or path.parent == CODE:
        return ""
    status = path.stat()
    if status.st_uid in {0, os.geteuid()} and not status.st_mode & _OTHERS_MAY_WRITE:
        return ""
    return f"{path} can be changed by others than you: name it in {VARIABLE} if it is to be read, or chmod 600 it."


def _unreadable(path: Path, named: str | None, error: OSError) -> str:
    reason = error.strerror or str(error)
    if named is not None:
        return f"{VARIABLE} names {path}, which cannot be read: {reason}."
    return (
        f"{path} has the settings of this farm and cannot be read: {reason}. Run this as a user who may, or let the "
        f"farm's group read it (chgrp jobfarm, chmod 640); {VARIABLE}= (empty) reads no file."
    )


def names() -> frozenset[str]:
    return frozenset(_FILES.values())


def pair(name: str) -> set[str]:
    """A variable, and the one by which the same secret is given by file or by value."""
    return {name.removesuffix(SUFFIX), f"{name.removesuffix(SUFFIX)}{SUFFIX}"}


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
