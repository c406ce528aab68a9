"""A note in the data folder of a farm whose database is not the embedded one, with its name and host: a command that is
started there without DATABASE_URL finds it, and does not work on an embedded database that nobody uses."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from postgres.errors import DatabaseElsewhere

FILE: Final = "external_database"


def write(data: Path, server: Mapping[str, Any]) -> None:
    """Note in `data` the server of this entry of DATABASES, without user and password. A folder that cannot be written
    stays without."""
    host, port = server["HOST"] or "the local socket", server["PORT"] or "5432"
    note = f'"{server["NAME"]}" at {host}, port {port}'
    path = data / FILE
    with suppress(OSError):
        if path.exists() and path.read_text() == note:
            return
        data.mkdir(parents=True, exist_ok=True)
        draft = data / f"{FILE}.{os.getpid()}"
        draft.write_text(note)
        draft.replace(path)


def check(data: Path) -> None:
    """Raise DatabaseElsewhere if there is a note in `data`."""
    path = data / FILE
    with suppress(FileNotFoundError, NotADirectoryError):
        raise DatabaseElsewhere(data=data, database=path.read_text().strip(), mark=path)
