"""Backups between PostgreSQL 15 (Debian's), 16 (of a wheel) and 18 (the embedded one), and of a primary that is named
second."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from postgres import embedded
from tests.operations import migrated, postgresqls
from tests.operations.postgresqls import DEBIAN_15, Server

pytestmark = pytest.mark.landing


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[int, Server]]:
    """A server of each major version."""
    with ExitStack() as stack:
        of_16 = stack.enter_context(postgresqls.programs_16())
        programs = {15: DEBIAN_15, 16: of_16, 18: embedded.bin_folder()}
        yield {major: stack.enter_context(postgresqls.primary(each)) for major, each in programs.items()}


def database(server: Server, name: str) -> str:
    """The address of a new database without tables."""
    server.run("createdb", name)
    return postgresqls.url(server, name=name)


def contents(url: str) -> dict[str, list[str]]:
    """All rows of all tables."""
    with psycopg.connect(url) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1").fetchall()
        return {
            name: [row for (row,) in connection.execute(f'SELECT t::text FROM "{name}" t ORDER BY 1')]
            for (name,) in tables
        }


def farm_on(url: str, data: Path, programs: Path) -> None:
    """Tables, the rows of the migrations, and a user whose name is what a careless filter would drop."""
    migrated.migrate(url, data, programs=programs)
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE odd (line text)")
        connection.execute("INSERT INTO odd VALUES ('SET transaction_timeout = 0;')")


class TestBackup:
    @pytest.mark.parametrize("origin", [15, 16, 18])
    def test_comes_back_on_15_16_and_18(self, origin: int, servers: dict[int, Server], tmp_path: Path) -> None:
        source, backup = database(servers[origin], "source"), str(tmp_path / "backup")
        farm_on(source, tmp_path, servers[origin].programs)
        done = postgresqls.manage(source, tmp_path, "backup", backup)
        assert done.returncode == 0, done.stderr
        for major in (15, 16, 18):
            target = database(servers[major], f"of_{origin}")
            done = postgresqls.manage(target, tmp_path, "restore", backup)
            assert done.returncode == 0, done.stderr
            assert contents(target) == contents(source)

    def test_is_of_the_primary_though_a_standby_is_named_first(self, tmp_path: Path) -> None:
        """The standby's copy of the database is stopped at its birth: only the primary has the row."""
        with postgresqls.primary(DEBIAN_15) as primary, postgresqls.standby(primary) as standby:
            farm_on(postgresqls.url(primary), tmp_path, DEBIAN_15)
            with psycopg.connect(postgresqls.url(standby), autocommit=True) as connection:
                connection.execute("SELECT pg_wal_replay_pause()")
            with psycopg.connect(postgresqls.url(primary)) as connection:
                connection.execute("INSERT INTO odd VALUES ('only on the primary')")
            done = postgresqls.manage(postgresqls.url(standby, primary), tmp_path, "backup", str(tmp_path / "backup"))
            assert done.returncode == 0, done.stderr
            primary.run("createdb", "again")
            target = postgresqls.url(primary, name="again")
            done = postgresqls.manage(target, tmp_path, "restore", str(tmp_path / "backup"))
            assert done.returncode == 0, done.stderr
            assert '("only on the primary")' in contents(target)["odd"]
