"""Functions for tests to schedule. Clusters in processes of their own import this module by its name."""

import os
import signal
import socket
import time
import urllib.request
from pathlib import Path
from typing import Any

from django.contrib.auth.models import Group
from django.db import connection, transaction

from scheduling import operations as scheduling
from scheduling.operations import Retry, action, mutation
from tests.unprintable import Unprintable


class Broken(Exception):
    """What a function of these tests raises."""


@mutation
def make_group(*, name: str) -> dict[str, Any]:
    """Write one row, and return it."""
    return {"name": Group.objects.create(name=name).name}


@mutation
def make_group_and_break(*, name: str) -> None:
    """Write one row, and raise."""
    Group.objects.create(name=name)
    raise Broken("after the write")


@mutation
def make_group_and_schedule(*, name: str, child: str) -> None:
    """Write one row and schedule another mutation."""
    Group.objects.create(name=name)
    scheduling.run_after(0, make_group, name=child)


@mutation
def make_group_and_a_bad_hook(*, name: str) -> None:
    """Write one row, and fail after the commit."""
    Group.objects.create(name=name)
    transaction.on_commit(_broken_hook)


def _broken_hook() -> None:
    raise Broken("after the commit")


@mutation
def return_what_is_not_json(*, name: str) -> object:
    """Write one row, and return something that cannot be stored."""
    return Group.objects.create(name=name)


@mutation
def run_short(*, name: str, sqlstate: str) -> None:
    """Write one row, and meet an error of the server as long as there is a group "short"."""
    Group.objects.create(name=name)
    if Group.objects.filter(name="short").exists():
        with connection.cursor() as cursor:
            cursor.execute(f"DO $$ BEGIN RAISE 'no more' USING ERRCODE = '{sqlstate}'; END $$")


@mutation
def leave() -> None:
    """Raise what would end a process."""
    raise SystemExit(3)


@mutation
def connect_somewhere(*, port: int) -> None:
    """Open a connection inside a mutation."""
    with socket.create_connection(("127.0.0.1", port), timeout=2):
        pass


@mutation
def fetch_somewhere(*, url: str) -> None:
    """The same with a library in between."""
    urllib.request.urlopen(url, timeout=2).close()


@mutation
def add(*, counter: int) -> None:
    """Add one to one of the counters of `tests.scheduling.concurrency`."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT value FROM test_counter WHERE id = %s", [counter])
        value = cursor.fetchone()[0]
        cursor.execute("UPDATE test_counter SET value = %s WHERE id = %s", [value + 1, counter])


def _note(path: str, number: int) -> None:
    with Path(path).open("ab", buffering=0) as ledger:
        ledger.write(f"{number}\n".encode())


@mutation
def put(*, row: int, path: str | None = None) -> None:
    """Write one row that nobody else writes; and a line outside the database, for each time that this is run."""
    if path is not None:
        _note(path, row)
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO test_mark (id) VALUES (%s)", [row])


@mutation
def put_and_schedule(*, row: int, child: int, path: str) -> None:
    """As `put`, and schedule another one."""
    _note(path, row)
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO test_mark (id) VALUES (%s)", [row])
    scheduling.run_after(0, put, row=child, path=path)


@mutation
def wait_for_lock(*, row: int, lock: int) -> None:
    """Stay inside the transaction while somebody else has this advisory lock."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [lock])
        cursor.execute("INSERT INTO test_mark (id) VALUES (%s)", [row])


@action()
def say(*, word: str) -> str:
    """Return the word."""
    return word


@action()
def break_down() -> None:
    """Raise."""
    raise Broken("no luck")


@action()
def say_what_is_not_json() -> object:
    """Do something, and return what cannot be stored."""
    return object()


class _Unreadable(dict[str, str]):
    def items(self) -> Any:
        raise Broken("no items")


@action(timeout=60)
def say_what_cannot_be_read() -> object:
    """Do something, and return a proxy of what is gone."""
    return _Unreadable()


@action(retry=Retry(max_attempts=3, first=0, base=1))
def break_down_and_be_tried_again(*, word: str) -> None:
    """Raise, three times."""
    raise Broken(word)


@action(timeout=0.2)
def never_end() -> None:
    """Run past the timeout."""
    time.sleep(60)


@action()
def write_directly(*, name: str) -> None:
    """Write in an action, past any mutation."""
    Group.objects.create(name=name)


@action(own_writes=True)
def write_directly_as_declared(*, name: str) -> None:
    """Write in an action that says that it does."""
    Group.objects.create(name=name)


@action()
def write_by_a_mutation(*, name: str) -> Any:
    """Write in an action, as it should be."""
    return make_group(name=name)


@action()
def schedule_from_an_action(*, word: str) -> None:
    """Schedule something, and break."""
    scheduling.run_after(0, say, word=word)
    raise Broken("after scheduling")


@action()
def cancel_itself_and_schedule(*, path: str) -> None:
    """Wait until the test has canceled this action, then schedule."""
    Path(path).touch()
    while Path(path).exists():
        time.sleep(0.005)
    scheduling.run_after(0, say, word="too late")
    make_group_and_schedule(name="by a canceled action", child="never")


@action(timeout=120)
def append(*, path: str, line: str, seconds: float = 0.0) -> None:
    """Write a line into a ledger outside of the database, and take a while."""
    with Path(path).open("ab", buffering=0) as ledger:
        ledger.write(f"{line}\n".encode())
    time.sleep(seconds)


@action(timeout=120)
def append_and_wait(*, path: str, line: str, until: str) -> None:
    """Write a line into a ledger, and end when the test has made a file."""
    append(path=path, line=line)
    while not Path(until).exists():
        time.sleep(0.005)


@action(retry=Retry(max_attempts=2, first=0), idempotent=True)
def die_once(*, path: str) -> None:
    """Kill the own process the first time."""
    if not Path(path).exists():
        Path(path).touch()
        os.kill(os.getpid(), 9)


def unregistered(*, word: str) -> str:
    """A function that nobody declared."""
    return word


@mutation
def nothing() -> None:
    """Touch nothing."""


@mutation
def read_setting(*, name: str) -> str:
    """What the session of a mutation has for a parameter of the server."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [name])
        return str(cursor.fetchone()[0])


@mutation
def sleep() -> None:
    """Be long in one statement."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(60)")


@mutation
def count_group() -> int:
    """Read a table and write one row of it."""
    group = Group.objects.create(name=f"{os.getpid()}-{time.monotonic_ns()}")
    return Group.objects.filter(pk=group.pk).count()


@action(timeout=0.2)
def hold_everything_up(*, path: str) -> None:
    """Be deaf to the timeout, as a C library may be."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    Path(path).touch()
    time.sleep(100)


@mutation
def dawdle_until(*, path: str) -> None:
    """Keep a transaction open until the test has made this file; no longer than two minutes."""
    until = time.monotonic() + 120
    while not Path(path).exists() and time.monotonic() < until:
        time.sleep(0.01)


@mutation
def kill_its_process(*, path: str, line: str) -> None:
    """Be killed each time that it runs, as by the kernel when memory is short."""
    with Path(path).open("ab", buffering=0) as ledger:
        ledger.write(f"{line}\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)


@action(queue="first", priority=50)
def send_first() -> None:
    """What goes before others, in a queue of its own."""


@mutation(queue="first", priority=50)
def count_first() -> None:
    """The same."""


def wants_a_queue(*, queue: str) -> str:
    """A function whose parameter has a name that `run_after` has itself."""
    return queue


@mutation
def collide() -> None:
    """Collide with another transaction, as PostgreSQL says it."""
    with connection.cursor() as cursor:
        cursor.execute("DO $$ BEGIN RAISE 'could not serialize' USING ERRCODE = '40001'; END $$")


@mutation
def change_its_own_row() -> None:
    """Change the row that says that this function runs."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE scheduling_scheduledfunction SET priority = 5 WHERE status = 'pending'")


@action()
def raise_unprintable() -> None:
    """Raise it."""
    raise Unprintable


@mutation
def raise_unprintable_mutation() -> None:
    """Raise it in a transaction."""
    raise Unprintable
