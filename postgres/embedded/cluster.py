"""What the embedded server's data directory is made with, and what must be in it."""

import contextlib
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psycopg
from psycopg import errors, sql

from postgres.embedded.binaries import MAJOR
from postgres.embedded.places import DATABASE, ROLE, SUPERUSER
from postgres.errors import WrongMajorVersion

# Given at every start, so that no line in a file can open the door.
FIXED = ("-c", "listen_addresses=", "-c", "unix_socket_permissions=0700")
# Written into postgresql.conf when the cluster is made; the operator may change them there.
TUNABLES = {
    "max_connections": "200",
    "shared_buffers": "128MB",
    # Processes that would lie idle: data are read by whoever asks for them, and nobody subscribes to this server.
    "io_method": "sync",
    "max_logical_replication_workers": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "logging_collector": "on",  # a file for each day of the week, emptied when that day comes round again
    "log_filename": "postgresql-%a.log",
    "log_rotation_age": "1d",
    "log_rotation_size": "0",
    "log_truncate_on_rotation": "on",
    "log_line_prefix": "%m [%p] %q%u@%d ",
}
LOG_BYTES = 16_000_000  # a larger log is thrown away at the next start


def initdb_options() -> list[str]:
    """The same on every machine: UTF-8, and PostgreSQL's own C.UTF-8, so that no system's locale sorts our text.

    trust is the only method that needs no password kept somewhere; it holds because only the owner of the folder (and
    root) can reach the socket."""
    locale = ["--encoding=UTF8", "--no-locale", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    tunables = [f"--set={name}={value}" for name, value in TUNABLES.items()]
    return [f"--username={SUPERUSER}", "--auth=trust", "--no-instructions", *locale, *tunables]


def new_beside(cluster: Path) -> Path:
    """A path for a cluster in the making. Never the same twice: an initdb outlives a farm that is killed, and
    goes on writing into its own. What earlier ones left is removed."""
    prefix = f"{cluster.name}.unfinished-"
    for leftover in cluster.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    return cluster.with_name(prefix + secrets.token_hex(4))


def refuse_other_major(cluster: Path) -> None:
    """Raises WrongMajorVersion if our PostgreSQL could not read it."""
    actual = (cluster / "PG_VERSION").read_text().strip()
    if actual != str(MAJOR):
        raise WrongMajorVersion(cluster=cluster, actual=actual, expected=MAJOR)


def drop_large_logs(cluster: Path) -> None:
    for log in (cluster / "log").glob("*.log"):
        if log.lstat().st_size > LOG_BYTES:
            log.unlink()


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged:
    folder: Path
    sizes: dict[Path, int]

    @classmethod
    def until_now(cls, cluster: Path) -> Self:
        folder = cluster / "log"
        return cls(folder=folder, sizes={log: log.lstat().st_size for log in folder.glob("*.log")})

    def since(self) -> str:
        new = (log.read_bytes()[self.sizes.get(log, 0) :] for log in sorted(self.folder.glob("*.log")))
        return b"".join(new).decode(errors="replace")


def provide(conninfo: str) -> None:
    """Make the farm's role and database if they are missing (a first start that was killed in the middle; a dropdb)."""
    try:
        connection = psycopg.connect(conninfo, autocommit=True)
    except psycopg.OperationalError:
        return  # it answers but has no room: then it is in use, and was provided for before
    with contextlib.closing(connection):
        if not _exists(connection, "pg_roles", "rolname", ROLE):
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN CREATEDB IN ROLE pg_monitor").format(sql.Identifier(ROLE)))
        if not _exists(connection, "pg_database", "datname", DATABASE):
            names = {"name": sql.Identifier(DATABASE), "owner": sql.Identifier(ROLE)}
            with contextlib.suppress(errors.DuplicateDatabase):
                connection.execute(sql.SQL("CREATE DATABASE {name} OWNER {owner}").format(**names))


def _exists(connection: "psycopg.Connection[tuple[object, ...]]", table: str, column: str, name: str) -> bool:
    query = sql.SQL("SELECT 1 FROM {} WHERE {} = %s").format(sql.Identifier(table), sql.Identifier(column))
    return connection.execute(query, [name]).fetchone() is not None
