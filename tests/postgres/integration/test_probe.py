"""The probe of writes on servers that are ill in each way: it names what is wrong, and is gone in time."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from postgres import embedded, probe
from postgres.probe import Verdict
from tests.descriptors import many_open
from tests.farm import until
from tests.operations import postgresqls
from tests.operations.postgresqls import DEBIAN_15, Server

WITHIN_S = 1.8
SLACK_S = 1.2  # of a busy machine


@pytest.fixture(scope="module", params=[15, 18])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    programs = {15: DEBIAN_15, 18: embedded.bin_folder()}[request.param]
    with postgresqls.primary(programs) as running:
        yield running


def ask(server: Server) -> Verdict:
    """The verdict, which comes in time."""
    began = time.monotonic()
    verdict = probe.probe(postgresqls.url(server), within_s=WITHIN_S)
    assert time.monotonic() - began < WITHIN_S + SLACK_S
    return verdict


def execute(server: Server, *sentences: str) -> None:
    with psycopg.connect(postgresqls.url(server), autocommit=True) as connection:
        for sentence in sentences:
            connection.execute(sentence)


def pids(server: Server) -> set[int]:
    """The processes that serve clients."""
    with psycopg.connect(postgresqls.url(server), autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
        ).fetchall()
    return {pid for (pid,) in rows}


class TestAServer:
    def test_that_is_well_is_writable_and_nothing_is_left(self, server: Server) -> None:
        assert ask(server) is Verdict.WRITABLE
        until(lambda: not pids(server))
        with psycopg.connect(postgresqls.url(server)) as connection:
            assert connection.execute("SELECT count(*) FROM pg_stat_user_tables").fetchone() == (0,)

    def test_that_is_well_is_writable_for_a_process_with_fifteen_hundred_descriptors(self, server: Server) -> None:
        with many_open():
            assert ask(server) is Verdict.WRITABLE

    def test_that_takes_no_writes_is_read_only(self, server: Server) -> None:
        execute(server, "ALTER DATABASE farm SET default_transaction_read_only = on")
        try:
            assert ask(server) is Verdict.READ_ONLY
        finally:
            execute(
                server,
                "SET default_transaction_read_only = off",
                "ALTER DATABASE farm RESET default_transaction_read_only",
            )

    def test_that_waits_for_a_standby_is_stalled_and_keeps_no_process_for_it(self, server: Server) -> None:
        execute(server, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
        try:
            until(lambda: ask(server) is Verdict.STALLED)
            until(lambda: not pids(server))
        finally:
            execute(
                server,
                "SET synchronous_commit = local",
                "ALTER SYSTEM RESET synchronous_standby_names",
                "SELECT pg_reload_conf()",
            )
        until(lambda: ask(server) is Verdict.WRITABLE)

    def test_that_is_frozen_says_nothing_to_who_connects(self, server: Server) -> None:
        postmaster = int((server.folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(postmaster, signal.SIGSTOP)
        try:
            assert ask(server) is Verdict.FROZEN
        finally:
            os.kill(postmaster, signal.SIGCONT)

    def test_whose_sorts_may_have_no_files_is_writable(self, server: Server) -> None:
        execute(server, "ALTER DATABASE farm SET temp_file_limit = 0")
        try:
            assert ask(server) is Verdict.WRITABLE
        finally:
            execute(server, "ALTER DATABASE farm RESET temp_file_limit")


def test_a_server_that_is_not_there_is_away(tmp_path: Path) -> None:
    assert probe.probe(f"host={tmp_path} dbname=farm", within_s=WITHIN_S) is Verdict.AWAY


def test_a_frozen_host_does_not_hide_the_one_that_took_its_place() -> None:
    with postgresqls.primary(DEBIAN_15) as frozen, postgresqls.primary(DEBIAN_15) as well:
        frozen.signal(signal.SIGSTOP)
        try:
            assert probe.probe(postgresqls.url(frozen, well), within_s=WITHIN_S) is Verdict.WRITABLE
        finally:
            frozen.signal(signal.SIGCONT)


def test_a_standby_is_read_only() -> None:
    with postgresqls.primary(DEBIAN_15) as primary, postgresqls.standby(primary) as standby:
        assert ask(standby) is Verdict.READ_ONLY


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a small disk")
def test_a_server_with_no_room_says_so() -> None:
    """On a disk of 100 MB that somebody filled."""
    with postgresqls.folder_of_its_own() as disk:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m", "tmpfs", disk], check=True)
        try:
            with postgresqls.primary(DEBIAN_15, on=disk) as server:
                assert ask(server) is Verdict.WRITABLE
                _fill(disk)
                assert ask(server) is Verdict.DISK_FULL
                (disk / "rubbish").unlink()
                until(lambda: ask(server) is Verdict.WRITABLE)
        finally:
            subprocess.run(["umount", "-l", disk], check=True)


def _fill(disk: Path) -> None:
    with (disk / "rubbish").open("wb", buffering=0) as rubbish:
        for size in (1 << 20, 1 << 12):
            while shutil.disk_usage(disk).free >= size:
                rubbish.write(bytes(size))
