"""A database that answers and takes no writes: no healthy cluster is given up for it."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from scheduling.operations.clusters import SILENT_S
from tests import forkserver
from tests.farm import until
from tests.operations import migrated, postgresqls
from tests.operations.postgresqls import DEBIAN_15, Server

LONGER_S = SILENT_S + 4  # than anybody may be silent
ROLES = ("mutations", "mutations", "actions")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of its own with two clusters for mutations and one for actions on it."""
    with postgresqls.primary(DEBIAN_15) as running, ExitStack() as stack:
        url = postgresqls.url(running)
        migrated.migrate(url, tmp_path)
        variables = os.environ | {"DATABASE_URL": url, "JOBFARM_DATA": str(tmp_path), "SECRET_KEY": "of-a-test" * 8}
        for place, role in enumerate(ROLES):
            log = stack.enter_context((tmp_path / f"cluster-{place}.log").open("wb"))
            command = ["manage.py", "cluster", f"--{role}"]
            cluster = forkserver.Process(command, env=variables, stdout=log, stderr=log, loaded=True)
            stack.callback(cluster.wait, 60)
            stack.callback(cluster.send_signal, signal.SIGTERM)
        until(lambda: ages(running) and max(ages(running)) < 2, within_s=60)
        yield running


def ages(server: Server) -> list[float]:
    """For each cluster that has not ended, how many seconds ago it reported; empty until all did once."""
    rows = _ask(
        server, "SELECT extract(epoch FROM now() - last_seen_at) FROM scheduling_cluster WHERE ended_at IS NULL"
    )
    found = [float(age) for (age,) in rows if age is not None]
    return found if len(found) == len(ROLES) else []


def lives(server: Server) -> set[tuple[str, str | None]]:
    """All that ever lived, and how each ended."""
    return {(str(life), ending) for life, ending in _ask(server, "SELECT cluster_id, ending FROM scheduling_cluster")}


def _ask(server: Server, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(postgresqls.url(server), autocommit=True) as connection:
        return connection.execute(query).fetchall()


def _do(server: Server, *sentences: str) -> None:
    with psycopg.connect(postgresqls.url(server), autocommit=True) as connection:
        connection.execute("SET default_transaction_read_only = off")
        connection.execute("SET synchronous_commit = local")
        for sentence in sentences:
            connection.execute(sentence)


OTHERS_OUT = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
    " WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
)


def commits_hang(server: Server) -> Callable[[], None]:
    """As when the one synchronous standby is gone."""
    _do(server, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
    return lambda: _do(server, "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")


def is_read_only(server: Server) -> Callable[[], None]:
    """As when DATABASE_URL leads to a standby for a while."""
    _do(server, "ALTER DATABASE farm SET default_transaction_read_only = on", OTHERS_OUT)
    return lambda: _do(server, "ALTER DATABASE farm RESET default_transaction_read_only", OTHERS_OUT)


def _passed(seconds: float) -> Callable[[], bool]:
    began = time.monotonic()
    return lambda: time.monotonic() > began + seconds


@pytest.mark.landing
def test_no_healthy_cluster_is_given_up_while_nothing_can_be_written_or_after(server: Server) -> None:
    before = lives(server)
    assert {ending for _, ending in before} == {None}
    # A report waits for no disk, so for no standby either: only a server that is read-only takes none.
    for falls_ill, silences in ((commits_hang, False), (is_read_only, True)):
        gets_well = falls_ill(server)
        until(_passed(LONGER_S), within_s=60, what="a while")
        if silences:
            until(lambda: ages(server) and min(ages(server)) > LONGER_S, within_s=60, what="a long silence")
        gets_well()
        until(lambda: ages(server) and max(ages(server)) < 2, within_s=30, what="the reports of all")
        assert lives(server) == before
