"""docs/point-in-time.md, done: a farm comes back as it was at a second before its disaster."""

import shlex
import shutil
import time
from pathlib import Path

import psycopg
import pytest

from postgres import embedded
from tests import documented
from tests.operations import migrated, postgresqls
from tests.operations.postgresqls import DEBIAN_15, Server

ARCHIVING, COPYING, RECOVERY = documented.blocks("point-in-time.md")
PATIENCE_S = 60

BEFORE = """
from tests import farm
farm.kind()
worker = farm.worker()
done, waits, lost = farm.submit(3)
farm.succeed(worker, farm.claim_one(worker), {"made": 1})
"""
AFTER = """
from tests import farm
from jobs import operations
from jobs.models import Job, Worker
claimed = farm.claim_one(Worker.objects.get())
[operations.cancel(job.pk, by=None) for job in Job.objects.waiting()]
print("LEASE", claimed.id, claimed.lease)
"""
RESTORED = """
from dataclasses import replace
from tests import farm
from jobs.domain.leases import Lease
from jobs.models import Job, Worker
worker = Worker.objects.get()
print(sorted(farm.statuses()))
again = farm.claim_one(worker)
stale = replace(again, lease=Lease.parse("{lease}"))
print(again.id == {job}, stale.lease.fence == again.lease.fence)
print(repr(farm.succeed(worker, stale, "of another time")))
print(farm.succeed(worker, again, "of this time"))
"""


@pytest.mark.landing
@pytest.mark.parametrize("programs", [DEBIAN_15, embedded.bin_folder()], ids=["15", "18"])
def test_a_farm_comes_back_as_it_was_a_second_before_its_disaster(programs: Path, tmp_path: Path) -> None:
    with postgresqls.folder_of_its_own() as backups, postgresqls.folder_of_its_own() as folder:
        archive = _in_place(ARCHIVING, backups)
        _owned(backups / "wal", like=backups)
        with postgresqls.primary(programs, configuration=archive) as server:
            url = postgresqls.url(server)
            migrated.migrate(url, tmp_path, programs=programs)
            server.run(*shlex.split(_in_place(COPYING, backups)))
            _do(url, tmp_path, "shell", "--no-imports", "-c", BEFORE)
            moment = _ask(url, "SELECT now()::text")
            lease = _do(url, tmp_path, "shell", "--no-imports", "-c", AFTER)
            _archived(url)
        (backups / "base").rename(folder / "data")
        recovery = _in_place(RECOVERY, backups).replace("2026-11-21 14:03:00+00", moment)
        postgresqls.append(folder / "data" / "postgresql.auto.conf", recovery + "archive_mode = off")
        (folder / "data" / "recovery.signal").touch()
        with postgresqls.started(programs, folder) as restored:
            _recovered(restored)
            _goes_on(postgresqls.url(restored), tmp_path, lease)


def _goes_on(url: str, data: Path, lease: str) -> None:
    """The job that was claimed after that moment waits, is claimed again, and is not the first one's any more."""
    _, job, text = lease.split()
    code = RESTORED.format(job=job, lease=text)
    statuses, same, refused, accepted = _do(url, data, "shell", "--no-imports", "-c", code).splitlines()
    assert statuses == "['pending', 'pending', 'success']"
    assert same == "True True"
    assert refused.startswith("LeaseLost(")
    assert accepted == "success"


def _in_place(block: str, backups: Path) -> str:
    """A block of the page, with this folder in place of /backups."""
    return "".join(line.strip() + "\n" for line in block.splitlines()).replace("/backups", str(backups))


def _owned(folder: Path, *, like: Path) -> None:
    folder.mkdir()
    shutil.chown(folder, like.stat().st_uid, like.stat().st_gid)


def _do(url: str, data: Path, *words: str) -> str:
    done = postgresqls.manage(url, data, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _ask(url: str, query: str) -> str:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return str(row[0])


def _archived(url: str) -> None:
    """Return when all of the log so far is in the archive."""
    last = _ask(url, "SELECT pg_walfile_name(pg_switch_wal())")
    _until(url, f"SELECT last_archived_wal >= '{last}' FROM pg_stat_archiver")


def _recovered(server: Server) -> None:
    _until(postgresqls.url(server), "SELECT NOT pg_is_in_recovery()")


def _until(url: str, query: str) -> None:
    end = time.monotonic() + PATIENCE_S
    while _ask(url, query) != "True":
        assert time.monotonic() < end, query
        time.sleep(0.05)
