"""A primary that dies or freezes, with a synchronous standby: nothing that was acknowledged is lost, nothing is done
twice, and the farm goes on in half a minute."""

import contextlib
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from postgres import probe
from postgres.probe import Verdict
from tests.farm import until
from tests.operations import postgresqls
from tests.operations.fleets import Fleet
from tests.operations.postgresqls import DEBIAN_15, Server
from tests.ports import free_port

BEFORE, AFTER = 40, 40  # jobs that are acknowledged on either side of the failover
WELL_WITHIN_S = 25.0  # 30 s are promised; the client of the test gives up after as many, and asks again


@pytest.fixture
def servers() -> Iterator[tuple[Server, Server]]:
    """A primary whose commits wait for its standby."""
    with (
        postgresqls.primary(DEBIAN_15, port=free_port()) as primary,
        postgresqls.standby(primary, port=free_port()) as standby,
    ):
        _do(primary, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
        until(lambda: _ask(primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1")
        yield primary, standby


@pytest.mark.landing
@pytest.mark.parametrize("struck_with", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_what_was_acknowledged_is_there_and_done_once_after_a_failover(
    servers: tuple[Server, Server], tmp_path: Path, struck_with: signal.Signals
) -> None:
    primary, standby = servers
    with ExitStack() as stack:
        fleet = Fleet(postgresqls.url(primary, standby), tmp_path, stack)
        acknowledged = [fleet.submit(f"before-{n}") for n in range(BEFORE)]
        stack.callback(_fence, primary)
        struck_at = time.monotonic()
        primary.signal(struck_with)
        standby.control("promote")
        acknowledged.append(fleet.submit("after-0"))
        assert time.monotonic() - struck_at < WELL_WITHIN_S, fleet.logs()
        acknowledged += [fleet.submit(f"after-{n}") for n in range(1, AFTER)]
        succeeded = "SELECT count(*) FROM jobs_outcome WHERE status = 'success'"
        try:
            until(lambda: _ask(standby, succeeded) == str(BEFORE + AFTER), within_s=90, what="the end of all jobs")
        except AssertionError:
            raise AssertionError(fleet.logs()) from None
        assert len(set(acknowledged)) == BEFORE + AFTER
        assert _ask(standby, "SELECT count(*) FROM jobs_job") == str(BEFORE + AFTER), "each key made one job"
        assert _ask(standby, "SELECT array_agg(id ORDER BY id) FROM jobs_job") == str(sorted(acknowledged))
        if struck_with == signal.SIGSTOP:
            primary.signal(signal.SIGCONT)
        else:
            postgresqls.start(primary)
        assert probe.probe(postgresqls.url(primary)) is Verdict.STALLED, "nothing is acknowledged by the old one"


def _fence(server: Server) -> None:
    """End it for good: whoever still waits there for a commit goes to the other one."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        server.signal(signal.SIGKILL)


def _ask(server: Server, query: str) -> str:
    with psycopg.connect(postgresqls.url(server), autocommit=True) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return str(row[0])


def _do(server: Server, *sentences: str) -> None:
    with psycopg.connect(postgresqls.url(server), autocommit=True) as connection:
        for sentence in sentences:
            connection.execute(sentence)
