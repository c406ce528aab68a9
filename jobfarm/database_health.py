"""What may be wrong with the database, for `manage.py doctor`, the overview and /health/ready; among it the indexes and
triggers that it lacks."""

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final

from django.apps import apps
from django.conf import settings
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor
from django.db.models import UniqueConstraint

from core.commands import MANAGE
from jobfarm.findings import Area, Condition, Finding, Gauge, Level, Remembered, Rule
from postgres import probe, reachability, statements
from postgres.probe import Verdict
from postgres.schema import REVERSE
from postgres.statements import Row

OLDEST_VERSION: Final = 150000  # of PostgreSQL, as server_version_num; the tests run on 15 and 18
ROOM_BYTES: Final = 1 << 30
MOST_NAMED: Final = 5
_OF_DOCTOR: Final = "jobfarm_doctor"  # a prepared statement
_WRITES: Final = Remembered(probe.probe, for_s=1.0)
_UNWRITABLE: Final[Mapping[Verdict, tuple[str, str]]] = {
    Verdict.READ_ONLY: (
        "The database is read-only: no job can be submitted, claimed or finished.",
        """DATABASE_URL leads to a standby, or default_transaction_read_only is on. Name the primary, or all hosts
        with commas between them.""",
    ),
    Verdict.DISK_FULL: (
        "The disk of the database is full: no job can be submitted, claimed or finished.",
        """Make room on it: old logs, an archive, a replication slot that nobody reads (select * from
        pg_replication_slots). Nothing is lost, and all goes on by itself.""",
    ),
    Verdict.STALLED: (
        f"A commit did not end within {probe.WITHIN_S} s.",
        """PostgreSQL waits for a synchronous standby that is not there (select * from pg_stat_replication; to go on
        without it: alter system reset synchronous_standby_names; select pg_reload_conf();), or its disk hangs.""",
    ),
    Verdict.FROZEN: (
        f"The database is frozen: it takes connections, and answers none within {probe.WITHIN_S} s.",
        """Its machine or its disk hangs, or somebody stopped it: look there at the state of its processes (ps: T is
        stopped, and kill -CONT resumes it; D waits for the disk). Nothing is lost, and all goes on by itself.""",
    ),
    Verdict.AWAY: (
        f"The database did not answer a new connection within {probe.WITHIN_S} s.",
        "Look at its load and its log. Behind a pooler, DATABASE_DIRECT_URL has to bypass it.",
    ),
}
_TRIGGER: Final = re.compile(r"^(CREATE(?: CONSTRAINT)?|DROP) TRIGGER (?:IF EXISTS )?(\w+)", re.MULTILINE)


def database() -> Iterator[Finding]:
    """Whether it answers, and is new enough. Why one is away, connecting says; not of a frozen one."""
    if _WRITES() is Verdict.FROZEN:
        yield _unwritable(Verdict.FROZEN)
        return
    [version] = statements.load("jobfarm", "version").run()
    if version.number < OLDEST_VERSION:
        yield Finding(f"PostgreSQL {version.name} is too old.", "Use 15 or newer.", level=Level.ERROR)
    else:
        yield Finding(f"PostgreSQL {version.name} answers.", level=Level.FINE)


def writes() -> Iterator[Finding]:
    """Whether it takes writes: a server that does not answers every other question here."""
    verdict = _WRITES()
    if verdict is not Verdict.WRITABLE:
        yield _unwritable(verdict)


def _unwritable(verdict: Verdict) -> Finding:
    sentence, remedy = _UNWRITABLE[verdict]
    return Finding(sentence, " ".join(remedy.split()), level=Level.ERROR)


def migrations() -> Iterator[Finding]:
    executor = MigrationExecutor(connection)
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if missing:
        yield Finding(
            f"Migrations that have not been applied: {len(missing)}.", f"Run {MANAGE} migrate.", level=Level.ERROR
        )
    if sentence := reachability.later_version():
        yield Finding("The database is of a later version than this code.", f"{sentence} Bring it to that version.")


def schema() -> Iterator[Finding]:
    """Whether every index and trigger of the models and migrations is there; a later version has others."""
    missing = missing_objects()
    if missing and not reachability.later_version():
        named = ", ".join(missing[:MOST_NAMED])
        more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
        yield Finding(
            f"The database lacks objects that the migrations created: {named}{more}.",
            "Without an index, calls read whole tables; without a trigger, a guarantee is lost. "
            f"{MANAGE} sqlmigrate shows how each was created: create it again (an index with "
            "CONCURRENTLY), and find out "
            "who dropped it.",
            level=Level.ERROR,
        )


def autovacuum() -> Iterator[Finding]:
    off = [row.name for row in statements.load("jobfarm", "autovacuum_off").run()]
    if off:
        yield Finding(
            f"Autovacuum is off for {', '.join(off[:MOST_NAMED])}.",
            "Every claim leaves a dead row that nothing removes: tables grow and claims become slow. Turn "
            "autovacuum and track_counts on. For one table: alter table NAME reset (autovacuum_enabled);",
        )


def disk() -> Iterator[Finding]:
    """Whether the disk of a database on this machine has room; of one elsewhere its own monitor says so."""
    folder = data_folder()
    if folder is not None and (free := shutil.disk_usage(folder).free) < ROOM_BYTES:
        yield Finding(
            f"The disk of the database has {free >> 20} MiB left.",
            f"Make room where {folder} is, or lower JOBFARM_RETENTION_DAYS: a full disk stops the farm.",
        )


def data_folder() -> Path | None:
    """Where the database keeps its data, if that is on this machine and this role may know."""
    host = str(connection.settings_dict["HOST"])
    if host and not host.startswith("/") and host not in {"127.0.0.1", "::1", "localhost"}:
        return None
    folders = [Path(row.name) for row in statements.load("jobfarm", "data_directory").run()]
    return next(filter(_is_here, folders), None)


def _is_here(folder: Path) -> bool:
    try:
        return folder.is_dir()  # which asks for no right to it, only to what it lies in
    except OSError:
        return False


def pooler() -> Iterator[Finding]:
    """Whether a statement that is prepared on a connection is there when it is used again: a pooler gives each
    transaction any of its own, and PgBouncer knows prepared statements from 1.21 on, if it is told to."""
    if connection.settings_dict["OPTIONS"].get("prepare_threshold") is None or not _passes_prepared_statements():
        return
    yield Finding(
        "The database is behind a pooler that does not support prepared statements.",
        'Calls fail now and then: "prepared statement does not exist". Set JOBFARM_PREPARE=0, or use '
        "PgBouncer 1.22 or newer with max_prepared_statements.",
        level=Level.ERROR,
    )


def _passes_prepared_statements() -> bool:
    """Whether somebody is between us and the server (the process that serves us is another than we were told), who
    leaves the name of a prepared statement as it is: PgBouncer gives those that it knows names of its own."""
    with transaction.atomic(), connection.cursor() as cursor:
        pgconn = cursor.connection.pgconn
        pgconn.prepare(_OF_DOCTOR.encode(), statements.load("jobfarm", "version").sql.encode())
        rows = statements.load("jobfarm", "prepared_by_name").run({"name": _OF_DOCTOR})
        if rows:
            pgconn.close_prepared(_OF_DOCTOR.encode())
    return any(row.pid != pgconn.backend_pid for row in rows)


def _oldest_s(oldest: Sequence[Row]) -> float:
    return max((float(one.seconds) for one in oldest), default=0.0)


def _snapshot(oldest: Sequence[Row]) -> str:
    [one] = oldest
    since = f"has been open for {one.seconds:.0f} s"
    if one.has_written_and_idles:
        since = f"has written, and has been idle in transaction for {one.idle_s:.0f} s"
    return f"A transaction of {one.client} (pid {one.pid}) {since}."


# Somebody's transaction keeps dead rows alive.
snapshots: Final = Area[Sequence[Row]](
    name="snapshots", read=lambda: statements.load("jobfarm", "oldest_snapshot").run(),
    gauges=[
        Gauge(
            "jobfarm_database_oldest_transaction_seconds",
            "Since when the oldest open transaction is: what died since then cannot be cleaned up.", _oldest_s,
        ),
    ],
    conditions=[
        Condition[Sequence[Row]](
            code="transaction_long", read=_oldest_s, noticed=300, above=900, sentence=_snapshot,
            remedy=lambda oldest: "Dead rows cannot be removed while it is open. To end it: "
            f"select pg_terminate_backend({oldest[0].pid});",
            rule=Rule(
                "TransactionTooLong", "jobfarm_database_oldest_transaction_seconds",
                "A transaction has been open for over 15 minutes",
            ),
        ),
    ],
)  # fmt: skip


dead_rows: Final = Area[Sequence[Row]](
    name="dead rows", read=lambda: statements.load("jobfarm", "dead_rows").run(),
    gauges=[
        Gauge("jobfarm_jobs_dead_rows", "Dead rows of the table of jobs, estimated.",
              lambda tables: sum(table.dead for table in tables)),
    ],
    conditions=[
        Condition[Sequence[Row]](
            code="dead_rows", noticed=100_000,
            read=lambda tables: max((table.dead for table in tables if table.dead > table.live), default=0),
            sentence=lambda tables: f"jobs_live has {tables[0].dead:,} dead rows and {tables[0].live:,} live ones.",
            remedy="Look for old transactions, then VACUUM jobs_live.",
        ),
    ],
)  # fmt: skip


def _usage() -> dict[str, tuple[float, float]]:
    """What each disk of this machine that the farm fills has left, and its size."""
    folders = {"database": data_folder(), "files": None if settings.FILES_ORIGIN else settings.MEDIA_ROOT}
    there = {name: shutil.disk_usage(folder) for name, folder in folders.items() if folder and folder.exists()}
    return {name: (usage.free, usage.total) for name, usage in there.items()}


_Disks = Gauge[dict[str, tuple[float, float]]]
disks: Final = Area(
    name="disks", read=_usage,
    gauges=[
        _Disks("jobfarm_disk_free_bytes", "What a disk of this machine has left.",
               lambda disks: {name: free for name, (free, _) in disks.items()}, ["disk"]),
        _Disks("jobfarm_disk_bytes", "Its size.",
               lambda disks: {name: size for name, (_, size) in disks.items()}, ["disk"]),
    ],
)  # fmt: skip


def missing_objects() -> list[str]:
    """What should be there and is not, each as "index jobs_queued of jobs_job" or "trigger ..."."""
    rows = statements.load("jobfarm", "schema_objects").run()
    named = {(row.what, row.name) for row in rows if row.is_whole}
    begun = {(row.of_table, row.first_column) for row in rows if row.what == "index" and row.is_whole}
    return [
        *(f"index {name} of {table}" for table, name in named_indexes() if ("index", name) not in named),
        *(f"index on {column} of {table}" for table, column in indexed_columns() if (table, column) not in begun),
        *(f"trigger {name}" for name in triggers() if ("trigger", name) not in named),
    ]


@cache
def named_indexes() -> tuple[tuple[str, str], ...]:
    listed = []
    for meta in _tables():
        listed += [(meta.db_table, index.name) for index in meta.indexes]
        listed += [(meta.db_table, one.name) for one in meta.constraints if isinstance(one, UniqueConstraint)]
    return tuple(listed)


@cache
def indexed_columns() -> tuple[tuple[str, str], ...]:
    """(table, column) of primary keys, unique fields, those with an index of their own, and the first of those that are
    unique together."""
    listed = []
    for meta in _tables():
        fields = [field for field in meta.local_concrete_fields if field.unique or field.db_index]
        fields += [meta.get_field(names[0]) for names in meta.unique_together]
        fields += meta.pk_fields[:1]  # of a key of several columns
        listed += [(meta.db_table, field.column) for field in fields]
    return tuple(listed)


@cache
def triggers() -> tuple[str, ...]:
    """Those that the SQL files of the migrations make, in their order, and no later one drops."""
    listed: dict[str, None] = {}
    for text in _migrations():
        for verb, name in _TRIGGER.findall(text.partition(REVERSE)[0]):
            if verb == "DROP":
                listed.pop(name, None)
            else:
                listed[name] = None
    return tuple(listed)


def _tables() -> list[Any]:
    """The Options of every model that has a table of its own; django-stubs knows less of them than they have."""
    options = [model._meta for model in apps.get_models(include_auto_created=True)]
    return [meta for meta in options if meta.managed and not meta.proxy]


def _migrations() -> Iterator[str]:
    for config in apps.get_app_configs():
        folder = resources.files(config.name) / "migrations"
        if folder.is_dir():
            for file in sorted(folder.iterdir(), key=lambda one: one.name):
                if file.name.endswith(".sql"):
                    yield file.read_text()
