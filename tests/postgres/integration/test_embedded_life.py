"""The embedded server's life: who starts it, who keeps it running, who stops it."""

import os
import signal
from pathlib import Path

from postgres.embedded import places
from tests.postgres.integration.farms import Farm, modes, until

CONNECT_AND_WAIT = "clock.now(); say('connected'); wait()"


class TestTheFirstConnection:
    def test_starts_a_server_in_an_empty_folder_and_leaves_nothing_running(self, everyones_fresh_farm: Farm) -> None:
        farm = everyones_fresh_farm
        around = modes(farm.data) | modes(places.ROOT_FOLDER.parent)
        farm.manage("migrate", "--verbosity=0")
        assert farm.processes() == []
        assert modes(farm.data) | modes(places.ROOT_FOLDER.parent) == around
        tables = farm.run("say(','.join(connection.introspection.table_names()))")
        assert tables == "django_content_type,django_migrations"

    def test_is_not_made_by_checks_and_settings(self, fresh_farm: Farm) -> None:
        fresh_farm.manage("check")
        assert list(fresh_farm.data.iterdir()) == []
        assert not fresh_farm.home.exists()

    def test_finds_utf8_its_own_role_and_no_superuser_rights(self, farm: Farm) -> None:
        output = farm.run("""
with connection.cursor() as cursor:
    cursor.execute("SELECT current_user, rolsuper, rolcreatedb, current_setting('server_encoding'),"
                   " current_setting('listen_addresses'), current_setting('jit') FROM pg_roles"
                   " WHERE rolname = current_user")
    say(cursor.fetchone())
""")
        assert output == "('jobfarm', False, True, 'UTF8', '', 'off')"

    def test_makes_the_database_again_after_it_was_dropped(self, farm: Farm) -> None:
        drop = """
import psycopg
from postgres import connections as ours
with psycopg.connect(ours.conninfo(), dbname="postgres", autocommit=True) as admin:
    admin.execute("DROP DATABASE jobfarm")
"""
        farm.run(drop)
        assert farm.run("clock.now(); say('there')") == "there"

    def test_may_be_that_of_psql(self, farm: Farm) -> None:
        assert farm.manage("dbshell", "--", "-Atc", "SELECT current_database()") == "jobfarm"
        assert farm.processes() == []

    def test_cannot_be_made_on_an_event_loop(self, farm: Farm) -> None:
        output = farm.run("""
import asyncio
from django.core.exceptions import SynchronousOnlyOperation
async def main():
    try:
        embedded.ensure()
    except SynchronousOnlyOperation as error:
        say(error)
asyncio.run(main())
""")
        assert "postgres.connections.run()" in output


class TestSeveralProcesses:
    def test_share_one_server_that_the_last_one_stops(self, fresh_farm: Farm) -> None:
        first, second = fresh_farm.use(CONNECT_AND_WAIT), fresh_farm.use(CONNECT_AND_WAIT)
        assert (first.read_line(), second.read_line()) == ("connected", "connected")
        server = fresh_farm.postmaster()
        first.end()
        assert fresh_farm.postmaster() == server
        assert server in fresh_farm.processes()
        second.end()
        assert fresh_farm.processes() == []

    def test_that_end_together_stop_it_once(self, farm: Farm) -> None:
        uses = [farm.use(CONNECT_AND_WAIT) for _ in range(3)]
        assert {use.read_line() for use in uses} == {"connected"}
        for use in uses:
            use.go_on()
        for use in uses:
            use.end()
        assert farm.processes() == []

    def test_come_and_go_without_ever_missing_it(self, farm: Farm) -> None:
        """Each connects while another may be stopping the server."""
        loop = """
import psycopg
from postgres import connections as ours
for _ in range(8):
    with psycopg.connect(ours.conninfo()) as own:
        own.execute("SELECT 1")
    embedded.release()
say("never missed it")
"""
        uses = [farm.use(loop) for _ in range(3)]
        assert [use.end() for use in uses] == ["never missed it"] * 3
        assert farm.processes() == []


class TestAForkedChild:
    def test_keeps_the_server_when_its_parent_ends(self, farm: Farm) -> None:
        use = farm.use("""
clock.now()
read, write = os.pipe()
child = os.fork()
if child == 0:
    clock.now()
    os.write(write, b"x")
    wait()
    clock.now()
    say("still here")
    sys.exit()
os.read(read, 1)
say(child)
""")
        child = int(use.read_line())
        until(lambda: _has_ended(use.process.pid))
        server = farm.postmaster()
        use.go_on()
        assert use.read_line() == "still here"
        until(lambda: not Path(f"/proc/{child}").exists())
        assert server not in farm.processes()

    def test_that_needs_no_database_does_not_keep_the_server_of_a_killed_parent(self, farm: Farm) -> None:
        use = farm.use("""
clock.now()
child = os.fork()
if child == 0:
    signal.pause()
say(child)
wait()
""")
        child = int(use.read_line())
        use.kill()
        farm.run("clock.now()")
        assert farm.processes() == []
        os.kill(child, signal.SIGKILL)

    def test_does_not_speak_on_its_parents_connection(self, farm: Farm) -> None:
        output = farm.run("""
def session():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        return cursor.fetchone()[0]
mine = session()
child = os.fork()
if child == 0:
    say(session() != mine)
    sys.exit()
os.waitpid(child, 0)
say(session() == mine)
""")
        assert output.split() == ["True", "True"]

    def test_of_multiprocessing_stops_the_server_if_it_is_the_last(self, farm: Farm) -> None:
        use = farm.use("""
import multiprocessing
def work():
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # the input of such a child is empty: no wait()
    clock.now()
    say(os.getpid())
    signal.sigwait({signal.SIGUSR1})
multiprocessing.get_context("fork").Process(target=work).start()
wait()
""")
        child = int(use.read_line())
        use.process.send_signal(signal.SIGKILL)
        use.process.wait()
        assert farm.processes() != []
        os.kill(child, signal.SIGUSR1)
        until(lambda: farm.processes() == [])


class TestRelease:
    def test_stops_the_server_from_a_signal_handler(self, farm: Farm) -> None:
        use = farm.use("""
def end(*_):
    embedded.release()
    os._exit(0)
signal.signal(signal.SIGTERM, end)
clock.now()
say("connected")
wait()
""")
        use.read_line()
        use.process.terminate()
        assert use.process.wait() == 0
        until(lambda: farm.processes() == [])

    def test_may_be_called_twice_and_be_followed_by_another_use(self, farm: Farm) -> None:
        output = farm.run("""
embedded.ensure()
embedded.release()
embedded.release()
clock.now()
say("again")
""")
        assert output == "again"

    def test_is_the_end_once_the_interpreter_is_ending(self, farm: Farm) -> None:
        """Otherwise a thread that still works would start the server again after it was stopped."""
        output = farm.run("""
import atexit
def too_late():
    try:
        embedded.ensure()
    except errors.ServerReleased as error:
        say(type(error).__name__)
atexit.register(too_late)
embedded.ensure()
""")
        assert output == "ServerReleased"


def _has_ended(pid: int) -> bool:
    """Gone, or a zombie that its parent (the test) has not asked about yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state == "Z"
