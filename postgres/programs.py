"""PostgreSQL's own programs (pg_dump, pg_restore) on the database that Django uses."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from psycopg.conninfo import conninfo_to_dict

from postgres import connections, embedded
from postgres.errors import BinariesMissing, ProgramFailed, ProgramMissing

# How libpq names in its environment what else would stand in a command line, where every user of the machine sees it.
_VARIABLES: Final = {
    "host": "PGHOST", "port": "PGPORT", "dbname": "PGDATABASE", "user": "PGUSER", "password": "PGPASSWORD",
    "passfile": "PGPASSFILE", "service": "PGSERVICE", "sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT",
    "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY", "connect_timeout": "PGCONNECT_TIMEOUT",
}  # fmt: skip
_OUTPUT_CHARACTERS: Final = 2000  # characters of what a program complained of, from the end


def run(name: str, *options: str, using: str = "default") -> None:
    """Run a program on the database, past a pooler (DATABASE_DIRECT_URL). The password is in no command line.

    Raises ProgramMissing, and ProgramFailed with its output.
    """
    done = subprocess.run(
        [_program(name), *options], env=_environment(using), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, errors="replace", check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise ProgramFailed(
            name=name, code_of_exit=done.returncode, output=done.stderr.strip()[-_OUTPUT_CHARACTERS:]
        )


def _program(name: str) -> Path:
    """The one of the embedded server, which is of the newest version that the farm knows; else that of the system."""
    try:
        own = embedded.bin_folder() / name
    except BinariesMissing:
        own = None
    if own is not None and own.exists():
        return own
    program = shutil.which(name)
    if program is None:
        raise ProgramMissing(name=name)
    return Path(program)


def _environment(using: str) -> dict[str, str]:
    parameters: Sequence[tuple[str, object]] = list(
        conninfo_to_dict(connections.direct_conninfo(using)).items()
    )
    return os.environ | {
        _VARIABLES[key]: str(value) for key, value in parameters if key in _VARIABLES and value
    }
