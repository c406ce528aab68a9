"""Secrets from files of their own, as docker's secrets and systemd's LoadCredential provide them."""

from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Final

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
    """Replace each NAME_FILE in `environ` with NAME and what the file holds, without the end of its line.

    Returns a sentence for each that cannot be read, or that is given in both ways.
    """
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
