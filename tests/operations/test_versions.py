"""Backups between PostgreSQL 15 (Debian's) and 18 (the embedded one), and of a primary that is named second."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from postgres import embedded
from tests.operations import postgresqls
from tests.operations.postgresqls import DEBIAN_15, Server

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def servers() -> Iterator[Callable[[int], Server]]:
    """A new server of this major version."""
    programs = {15: DEBIAN_15, 18: embedded.bin_folder()}
    with ExitStack() as stack:
        yield lambda major: stack.enter_context(postgresqls.primary(programs[major]))


def manage(url: str, data: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`manage.py` on this database, as an operator runs it."""
    variables = os.environ | {"DATABASE_URL": url, "JOBFARM_DATA": str(data), "SECRET_KEY": "of-a-test" * 8}
    variables.pop("DATABASE_DIRECT_URL", None)
    return subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=ROOT,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )


def contents(url: str) -> dict[str, list[str]]:
    """All rows of all tables."""
    with psycopg.connect(url) as connection:
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
        ).fetchall()
        return {
            name: [row for (row,) in connection.execute(f'SELECT t::text FROM "{name}" t ORDER BY 1')]
            for (name,) in tables
        }


def farm_on(url: str, data: Path) -> None:
    """Tables, the rows of the migrations, and a user whose name is what a careless filter would drop."""
    done = manage(url, data, "migrate", "--verbosity=0")
    assert done.returncode == 0, done.stderr
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE odd (line text)")
        connection.execute("INSERT INTO odd VALUES ('SET transaction_timeout = 0;')")


class TestBackup:
    @pytest.mark.parametrize("origin", [15, 18])
    def test_comes_back_on_15_and_on_18(
        self, origin: int, servers: Callable[[int], Server], tmp_path: Path
    ) -> None:
        source, backup = postgresqls.url(servers(origin)), str(tmp_path / "backup")
        farm_on(source, tmp_path)
        done = manage(source, tmp_path, "backup", backup)
        assert done.returncode == 0, done.stderr
        for major in (15, 18):
            target = postgresqls.url(servers(major))
            done = manage(target, tmp_path, "restore", backup)
            assert done.returncode == 0, done.stderr
            assert contents(target) == contents(source)

    def test_is_of_the_primary_though_a_standby_is_named_first(self, tmp_path: Path) -> None:
        """The standby's copy of the database is stopped at its birth: only the primary has the row."""
        with postgresqls.primary(DEBIAN_15) as primary, postgresqls.standby(primary) as standby:
            farm_on(postgresqls.url(primary), tmp_path)
            with psycopg.connect(postgresqls.url(standby), autocommit=True) as connection:
                connection.execute("SELECT pg_wal_replay_pause()")
            with psycopg.connect(postgresqls.url(primary)) as connection:
                connection.execute("INSERT INTO odd VALUES ('only on the primary')")
            done = manage(postgresqls.url(standby, primary), tmp_path, "backup", str(tmp_path / "backup"))
            assert done.returncode == 0, done.stderr
            primary.run("createdb", "again")
            target = postgresqls.url(primary, name="again")
            done = manage(target, tmp_path, "restore", str(tmp_path / "backup"))
            assert done.returncode == 0, done.stderr
            assert '("only on the primary")' in contents(target)["odd"]
