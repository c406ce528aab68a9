"""The farm's tables on servers of the tests' own: to migrate takes sixteen seconds of a processor, to read a dump one.

Of each version of PostgreSQL the first who asks migrates, and leaves a dump below the folder of the tests, named after
all that migrations are made of. Who tests how it is migrated does it by itself.
"""

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from tests import template
from tests.operations import postgresqls
from tests.operations.postgresqls import DEBIAN_15


def migrate(url: str, data: Path, *, programs: Path = DEBIAN_15) -> None:
    """What `manage.py migrate` makes of an empty database, which a server of these programs has."""
    with _kept() as folder:
        dump = folder / f"{template.name()}-{programs.parent.name}.sql"
        if not dump.exists():
            done = postgresqls.manage(url, data, "migrate", "--verbosity=0")
            assert done.returncode == 0, done.stderr
            _keep(_run(url, programs / "pg_dump", "--no-owner"), dump)
            return
        statements = dump.read_text()
    _run(url, programs / "psql", "-Xq1", "--file=-", "--set=ON_ERROR_STOP=1", statements=statements)


@contextmanager
def _kept() -> Iterator[Path]:
    """The folder of the dumps, for one at a time: others wait for who makes what they would."""
    folder = settings.JOBFARM_DATA / "migrated"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def _keep(statements: str, dump: Path) -> None:
    for older in dump.parent.glob("*.sql"):
        if not older.name.startswith(template.name()):
            older.unlink()
    dump.with_suffix(".part").write_text(statements)
    dump.with_suffix(".part").rename(dump)


def _run(url: str, program: Path, *options: str, statements: str = "") -> str:
    """What a program prints of this database; of several servers, of that which takes writes."""
    done = subprocess.run(
        [program, *options, f"--dbname={url}"], input=statements, capture_output=True, text=True, check=False,
        env=os.environ | {"PGTARGETSESSIONATTRS": "read-write", "PGCLIENTENCODING": "UTF8"}, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
