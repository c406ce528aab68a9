"""docs/faults.md: each fault is planted in a farm of its own, and `manage.py doctor` says what that page says."""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from tests import forkserver
from tests.operations import migrated, postgresqls
from tests.operations.postgresqls import DEBIAN_15, Server
from tests.ports import free_port

PAGE = (forkserver.ROOT / "docs" / "faults.md").read_text()
ROWS = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \| [^|]+ \|$", PAGE, re.MULTILINE)[2:])
KEY = "of-a-test" * 8
WITHIN_S = 30  # of a busy machine; the checks themselves take no more than 6
# Five minutes are long for a test: this doctor warns at once.
AT_ONCE = (
    "import django; django.setup(); from jobfarm.database_health import snapshots; "
    "vars(snapshots.conditions[0])['noticed'] = 0.0; "
)
PREPARE = "from tests import farm; from jobs import operations; farm.kind(); "


@dataclass
class Farm:
    """A database with the tables of a farm, and what doctor is to have in its environment."""

    server: Server
    name: str
    data: Path
    stack: ExitStack
    environment: dict[str, str] = field(default_factory=dict)
    url: str = ""
    before: str = ""  # Python, run in the process of doctor

    def __post_init__(self) -> None:
        self.url = postgresqls.url(self.server, name=self.name)

    def sql(self, *sentences: str) -> None:
        """As an administrator of the database."""
        with psycopg.connect(postgresqls.url(self.server, name=self.name), autocommit=True) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute("SET synchronous_commit = local")
            for sentence in sentences:
                connection.execute(sentence)

    def run(self, code: str) -> str:
        """What Python on the farm prints."""
        done = self._python(f"import django; django.setup(); {code.strip()}")
        assert done.returncode == 0, done.stderr
        return done.stdout

    def doctor(self) -> "subprocess.CompletedProcess[str]":
        """What the operator sees."""
        start = "import sys; from jobfarm.command_line import run; sys.exit(run(['manage.py', 'doctor']))"
        return self._python(self.before + start)

    def _python(self, code: str) -> "subprocess.CompletedProcess[str]":
        variables = {"DATABASE_URL": self.url, "JOBFARM_DATA": str(self.data), "SECRET_KEY": KEY, **self.environment}
        base = {name: value for name, value in os.environ.items() if name != "DATABASE_DIRECT_URL"}
        environment = {**base, "DJANGO_SETTINGS_MODULE": "jobfarm.settings", **variables}
        return forkserver.run(["-c", code], env=environment, timeout=WITHIN_S)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with the migrated database `farm`, which each test copies."""
    with postgresqls.primary(DEBIAN_15) as running:
        migrated.migrate(postgresqls.url(running), tmp_path_factory.mktemp("data"))
        yield running


@pytest.fixture
def planted(server: Server, tmp_path: Path) -> Iterator[Farm]:
    server.run("createdb", "--template=farm", "trial")
    try:
        with ExitStack() as stack:
            yield Farm(server=server, name="trial", data=tmp_path, stack=stack)
    finally:
        server.run("dropdb", "--force", "trial")


@pytest.fixture(scope="module")
def of_no_fault(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What doctor says of a farm of which no part runs, and which is well but for that."""
    with ExitStack() as stack:
        return _all(Farm(server=server, name="farm", data=tmp_path_factory.mktemp("data"), stack=stack).doctor())


def nothing(_: Farm) -> None:
    """No part of the farm runs."""


def frozen_cluster(farm: Farm) -> None:
    farm.sql(
        "INSERT INTO scheduling_cluster"
        " (cluster_id, role, host, pid, workers, free, waits, last_seen_at, ended_at, ending)"
        " VALUES (gen_random_uuid(), 'actions', 'here', 1, 2, 0, false, now(), now(), 'frozen')"
    )


def unserved_queue(farm: Farm) -> None:
    farm.run(PREPARE + "farm.worker('gpu-1'); farm.submit(1)")
    farm.sql("UPDATE jobs_worker SET last_seen_at = last_seen_at - interval '1 hour'")


def drained_queue(farm: Farm) -> None:
    farm.run(PREPARE + "operations.drain(farm.worker('gpu-1')); farm.submit(1)")


def requirement_sets_nearly_full(farm: Farm) -> None:
    farm.environment["JOBFARM_REQUIREMENTS_IN_ALL"] = "10"
    farm.run(PREPARE + "[farm.submit(1, requires={'gpu': str(n)}) for n in range(9)]")


def overdue_cron(farm: Farm) -> None:
    for role in ("mutations", "actions"):
        farm.sql(
            "INSERT INTO scheduling_cluster"
            " (cluster_id, role, host, pid, workers, free, waits, last_seen_at)"
            f" VALUES (gen_random_uuid(), '{role}', 'here', 1, 2, 2, false, now() + interval '1 hour')"
        )
    farm.sql("UPDATE scheduling_cron SET next_at = now() - interval '2 minutes'")


def frozen_database(farm: Farm) -> None:
    farm.server.signal(signal.SIGSTOP)
    farm.stack.callback(farm.server.signal, signal.SIGCONT)


def wrong_scope(farm: Farm) -> None:
    farm.run(PREPARE + "farm.worker(owner=farm.user('ada')); farm.submit(1, owner=farm.user('bob'))")


def paused_queue(farm: Farm) -> None:
    farm.run(PREPARE + "farm.submit(1); operations.pause('work')")


def overdue_lease(farm: Farm) -> None:
    farm.run(PREPARE + "farm.submit(1); farm.pass_time(farm.claim_one(farm.worker()), 60)")


def missing_migration(farm: Farm) -> None:
    farm.sql("DELETE FROM django_migrations WHERE id = (SELECT max(id) FROM django_migrations WHERE app = 'webhooks')")


def no_database(farm: Farm) -> None:
    farm.url = postgresqls.url(farm.server, name="nothing")


def wrong_password(farm: Farm) -> None:
    rules = farm.server.folder / "data" / "pg_hba.conf"
    if "someone" not in rules.read_text():
        rules.write_text("local all someone scram-sha-256\n" + rules.read_text())
        farm.sql("CREATE ROLE someone LOGIN PASSWORD 'right'", "SELECT pg_reload_conf()")
    farm.url = f"postgresql://someone:wrong@/trial?host={farm.server.folder}"


def refused_connection(farm: Farm) -> None:
    farm.url = "postgresql://farm@127.0.0.1:1/farm"


def read_only(farm: Farm) -> None:
    farm.sql("ALTER DATABASE trial SET default_transaction_read_only = on")


def full_disk(farm: Farm) -> None:
    """A copy of the server on a disk of 300 MB that somebody fills."""
    disk = farm.stack.enter_context(postgresqls.folder_of_its_own())
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300m", "tmpfs", disk], check=True)
    farm.stack.callback(lambda: subprocess.run(["umount", "-l", disk], check=True))
    folder = farm.stack.enter_context(postgresqls.folder_of_its_own(on=disk))
    farm.server.run("pg_basebackup", "-D", f"{folder}/data", "--no-sync", "--checkpoint=fast")
    full = farm.stack.enter_context(postgresqls.started(farm.server.programs, folder))
    farm.url = postgresqls.url(full, name="trial")
    psycopg.connect(farm.url).close()  # the first client of a new server has files written
    with (disk / "rubbish").open("wb", buffering=0) as rubbish:
        for size in (1 << 20, 1 << 12):
            while shutil.disk_usage(disk).free >= size:
                rubbish.write(bytes(size))


def commit_stall(farm: Farm) -> None:
    farm.sql("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
    farm.stack.callback(farm.sql, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")


def redis_away(farm: Farm) -> None:
    farm.environment["REDIS_URL"] = "redis://127.0.0.1:1/0"


def pooler(farm: Farm) -> None:
    port = farm.stack.enter_context(postgresqls.pooler(farm.server, port=free_port()))
    farm.url = f"postgresql://farm@127.0.0.1:{port}/trial"


def wrong_secret_key(farm: Farm) -> None:
    farm.run("from webhooks.operations import secrets; secrets.add('github', name='a test')")
    farm.environment["SECRET_KEY"] = "another" * 10


def bucket_away(farm: Farm) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "of-a-test", "AWS_SECRET_ACCESS_KEY": "of-a-test"}
    farm.environment |= {"FILES_URL": "s3://bucket?region=us-east-1&endpoint=http://127.0.0.1:1", **keys}


def snapshot_held_open(farm: Farm) -> None:
    held = farm.stack.enter_context(psycopg.connect(farm.url))
    held.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    held.execute("SELECT 1")
    farm.before = AT_ONCE


def idle_transaction_that_has_written(farm: Farm) -> None:
    held = farm.stack.enter_context(psycopg.connect(farm.url))
    held.execute("UPDATE django_migrations SET name = name WHERE app = 'auth'")
    farm.before = AT_ONCE


def dropped_index(farm: Farm) -> None:
    farm.sql("DROP INDEX jobs_running")


PLANTS: dict[str, Callable[[Farm], None]] = {
    "no cluster": nothing,
    "no janitor": nothing,
    "frozen cluster": frozen_cluster,
    "unserved queue": unserved_queue,
    "drained queue": drained_queue,
    "wrong scope": wrong_scope,
    "paused queue": paused_queue,
    "overdue lease": overdue_lease,
    "requirement sets nearly full": requirement_sets_nearly_full,
    "overdue cron": overdue_cron,
    "missing migration": missing_migration,
    "no database": no_database,
    "wrong password": wrong_password,
    "refused connection": refused_connection,
    "frozen database": frozen_database,
    "read-only": read_only,
    "full disk": full_disk,
    "commit stall": commit_stall,
    "Redis away": redis_away,
    "pooler without JOBFARM_PREPARE=0": pooler,
    "wrong SECRET_KEY": wrong_secret_key,
    "bucket away": bucket_away,
    "snapshot held open": snapshot_held_open,
    "idle transaction that has written": idle_transaction_that_has_written,
    "dropped index": dropped_index,
}
NEEDS_ROOT = {"full disk"}


def test_the_page_has_every_fault_that_is_planted() -> None:
    assert list(ROWS) == list(PLANTS)
    assert len(PLANTS) == 25


@pytest.mark.landing
@pytest.mark.parametrize("fault", PLANTS)
def test_doctor_names_what_was_planted(fault: str, planted: Farm, of_no_fault: str) -> None:
    if fault in NEEDS_ROOT and os.geteuid() != 0:
        pytest.skip("only root makes a small disk")
    sentence = ".+".join(map(re.escape, ROWS[fault].split("…")))
    assert PLANTS[fault] is nothing or not re.search(sentence, of_no_fault)
    PLANTS[fault](planted)
    done = planted.doctor()
    assert re.search(sentence, _all(done)), _all(done)
    assert "Traceback" not in _all(done)
    assert done.returncode == 1, "no part of this farm runs"


READY = """
import json, time
from django.test import Client
client = Client(headers={"Host": "127.0.0.1"})
client.get("/health/live")
began = time.monotonic()
answer = client.get("/health/ready")
print(json.dumps([answer.status_code, time.monotonic() - began, answer.json()["checks"]]))
"""


@pytest.mark.landing
@pytest.mark.parametrize("fault", ["read-only", "full disk", "commit stall"])
def test_a_server_that_cannot_write_is_not_ready_and_says_why_in_time(fault: str, planted: Farm) -> None:
    if fault in NEEDS_ROOT and os.geteuid() != 0:
        pytest.skip("only root makes a small disk")
    PLANTS[fault](planted)
    status, seconds, checks = json.loads(planted.run(READY))
    assert (status, checks["writes"]) == (503, {"status": "error", "messages": [ROWS[fault]]})
    assert checks["janitor"] == {"status": "skipped"}
    assert seconds < 3, "two, and what a busy machine takes"


def _all(done: "subprocess.CompletedProcess[str]") -> str:
    return done.stdout + done.stderr
