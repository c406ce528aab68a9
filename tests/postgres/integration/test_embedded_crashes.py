"""What the embedded server makes of killed processes, and of what they leave behind."""

import os
import signal
import subprocess

import pytest

from tests.postgres.integration.farms import Farm, until

pytestmark = pytest.mark.landing

CONNECT_AND_WAIT = "clock.now(); say('connected'); wait()"

CONNECT_WITHIN_TEN_SECONDS = """
import time
from postgres import deadline
began = time.monotonic()
try:
    with deadline.within(10):
        clock.now()
except errors.ServerSilent:
    say(time.monotonic() - began)
"""


class TestAKilledUser:
    def test_leaves_the_server_for_the_next_command_which_stops_it(self, everyones_farm: Farm) -> None:
        farm = everyones_farm
        use = farm.use(CONNECT_AND_WAIT)
        use.read_line()
        server = farm.postmaster()
        use.kill()
        assert server in farm.processes()
        next_use = farm.use(CONNECT_AND_WAIT)
        next_use.read_line()
        assert farm.postmaster() == server
        next_use.end()
        assert farm.processes() == []

    def test_in_the_middle_of_the_first_start_leaves_nothing_that_looks_like_a_cluster(self, fresh_farm: Farm) -> None:
        use = fresh_farm.use("clock.now()")
        until(lambda: any(fresh_farm.home.glob("cluster.unfinished-*/base")))
        use.kill()
        assert not fresh_farm.cluster.exists()
        assert fresh_farm.run("clock.now(); say('there')") == "there"


class TestAFrozenServer:
    def test_is_silent_to_who_has_a_deadline_and_waited_for_by_nobody_who_ends(self, farm: Farm) -> None:
        """It stops when it goes on."""
        use = farm.use(CONNECT_AND_WAIT)
        use.read_line()
        server = farm.postmaster()
        os.kill(server, signal.SIGSTOP)
        try:
            assert float(farm.run(CONNECT_WITHIN_TEN_SECONDS)) < 4  # a process has to start and to end as well
            use.end(may_complain=True)
        finally:
            os.kill(server, signal.SIGCONT)
        until(lambda: farm.processes() == [])


class TestAKilledServer:
    def test_is_started_again_by_the_next_connection_of_whoever_used_it(self, everyones_farm: Farm) -> None:
        farm = everyones_farm
        use = farm.use("clock.now(); say('connected'); connection.close(); wait(); clock.now(); say('again'); wait()")
        use.read_line()
        server = farm.postmaster()
        farm.kill_server()
        use.go_on()
        assert use.read_line() == "again"
        assert farm.postmaster() != server
        use.end(may_complain=True)

    def test_is_started_once_by_two_that_used_it(self, farm: Farm) -> None:
        code = "clock.now(); say('connected'); connection.close(); wait(); clock.now(); say('again'); wait()"
        uses = [farm.use(code), farm.use(code)]
        assert [use.read_line() for use in uses] == ["connected"] * 2
        farm.kill_server()
        for use in uses:
            use.go_on()
        assert [use.read_line() for use in uses] == ["again"] * 2
        for use in uses:
            use.end(may_complain=True)
        assert farm.processes() == []


class TestAStaleNote:
    def test_that_names_a_living_process_is_not_believed(self, everyones_farm: Farm) -> None:
        """After a crash of the machine its number may be anybody's: neither refuse to start, nor stop that
        process."""
        farm = everyones_farm
        stranger = self._stranger(farm)
        note = farm.cluster / "postmaster.pid"
        note.write_text(f"{stranger.pid}\n{farm.cluster}\n1700000000\n5432\n{farm.home}\n\n 1234 5678\nready   \n")
        farm.give(note)
        assert farm.run("clock.now(); say('there')") == "there"
        assert stranger.poll() is None
        stranger.kill()
        stranger.wait()

    def test_that_cannot_be_read_is_not_believed(self, farm: Farm) -> None:
        note = farm.cluster / "postmaster.pid"
        note.write_text("no number\n")
        farm.give(note)
        assert farm.run("clock.now(); say('there')") == "there"

    def _stranger(self, farm: Farm) -> "subprocess.Popen[bytes]":
        """A process of the user that the server runs as: that is the one PostgreSQL's own check takes for its
        server."""
        owner = farm.home.stat()
        credentials = {"user": owner.st_uid, "group": owner.st_gid} if os.geteuid() == 0 else {}
        return subprocess.Popen(["sleep", "60"], cwd="/", **credentials)  # type: ignore[call-overload,no-any-return]


class TestAFullServer:
    def test_is_not_taken_for_one_that_is_down(self, farm: Farm) -> None:
        """All connections are taken, the superuser's too: whoever comes now attaches, and is told that it is
        full."""
        configuration = farm.cluster / "postgresql.auto.conf"
        before = configuration.read_bytes()
        configuration.write_text(
            "max_connections = 4\nsuperuser_reserved_connections = 0\n"
            "max_wal_senders = 0\nautovacuum_worker_slots = 1\n"
        )
        first = farm.use("""
import psycopg
from postgres import connections as ours
held = []
try:
    for _ in range(50):
        held.append(psycopg.connect(ours.conninfo()))
except psycopg.OperationalError:
    say("full")
wait()
for one in held:
    one.close()
""")
        assert first.read_line() == "full"
        server = farm.postmaster()
        output = farm.run("""
from postgres.reachability import explain_unreachable
try:
    clock.now()
except OperationalError as error:
    say(explain_unreachable(error))
""")
        assert "has no connection left" in output
        assert farm.postmaster() == server
        first.end()
        configuration.write_bytes(before)


class TestAnotherMajorVersion:
    def test_is_refused_with_what_to_do(self, farm: Farm) -> None:
        version = farm.cluster / "PG_VERSION"
        before = version.read_bytes()
        version.write_text("17\n")
        output = farm.run("""
try:
    clock.now()
except errors.WrongMajorVersion as error:
    say(error)
""")
        version.write_bytes(before)
        assert output == (
            f"The data in {farm.cluster} was written by PostgreSQL 17, and this farm brings PostgreSQL 18, "
            "which cannot read it. Dump it with the old version of the farm (pg_dump) and load it into the "
            "new one, or move that folder away to start with an empty database."
        )


class TestAServerThatCannotStart:
    def test_says_why(self, farm: Farm) -> None:
        configuration = farm.cluster / "postgresql.auto.conf"
        before = configuration.read_bytes()
        configuration.write_text("max_connections = many\n")
        output = farm.run("""
try:
    clock.now()
except errors.ServerFailed as error:
    say(error)
""")
        configuration.write_bytes(before)
        assert 'invalid value for parameter "max_connections": "many"' in output


class TestCtrlC:
    def test_of_the_whole_group_stops_everything(self, farm: Farm) -> None:
        """A terminal sends SIGINT to the whole group; the server is in a session of its own, and outlives the
        signal until the last user has stopped it."""
        use = farm.use("""
os.setpgid(0, 0)
child = os.fork()
clock.now()
try:
    say("connected")  # inside: the signal may come as soon as this is heard
    wait()
except KeyboardInterrupt:
    pass
if child:
    os.waitpid(child, 0)
clock.now()
""")
        assert [use.read_line(), use.read_line()] == ["connected"] * 2
        os.killpg(use.process.pid, signal.SIGINT)
        assert use.process.wait() == 0
        assert farm.processes() == []
