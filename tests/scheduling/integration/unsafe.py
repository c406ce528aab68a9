"""Functions that do what they must not, in each of the ways that Python has; for tests of the guards."""

import asyncio
import multiprocessing
import os
import socket
import sqlite3
import subprocess
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import psycopg
from asgiref.sync import async_to_sync, sync_to_async
from django.contrib.auth.models import Group
from django.db import connection, connections, transaction
from psycopg import sql
from psycopg_pool import ConnectionPool

from postgres.connections import conninfo
from ratelimits import operations as limits
from scheduling import operations as scheduling
from scheduling.operations import action, mutation

# What an application has open before any function runs.
busy_threads = ThreadPoolExecutor(max_workers=1)
pools: dict[str, ConnectionPool] = {}


def close_connections_of_threads() -> None:
    """Those that live as long as the process: this one, and the one that asgiref keeps for `sync_to_async`."""
    busy_threads.submit(connections.close_all).result()
    asyncio.run(sync_to_async(connections.close_all)())


# What a mutation must not do. Each is a plain function: a test makes a mutation of it (`in_a_mutation`).


def run_a_program() -> None:
    """As most libraries start one."""
    subprocess.run(["true"], check=True)


def run_a_shell() -> None:
    """As in a tutorial."""
    os.system("true")


def spawn() -> None:
    """The system's own way."""
    os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)


def fork() -> None:
    """A copy of this process."""
    if (child := os.fork()) == 0:
        os._exit(0)
    os.waitpid(child, 0)


def become_another_program() -> None:
    """Only one that is not there: the test process goes on."""
    os.execv("/nowhere", ["nowhere"])


def start_a_process() -> None:
    """By multiprocessing, which raises no audit event for this."""
    process = multiprocessing.get_context("spawn").Process(target=int)
    process.start()
    process.join()


def use_a_pool_of_processes() -> None:
    """By an executor."""
    with ProcessPoolExecutor(max_workers=1) as pool:
        pool.submit(int).result()


def start_a_thread() -> None:
    """That writes on a connection of its own."""
    thread = threading.Thread(target=_in_a_thread)
    thread.start()
    thread.join()


def start_a_timer() -> None:
    """A thread by another name."""
    threading.Timer(0, int).start()


def use_a_pool_of_threads() -> None:
    """A new one."""
    with ThreadPoolExecutor(max_workers=1) as threads:
        threads.submit(int).result()


def use_a_thread_that_waits() -> None:
    """One that was started long before."""
    busy_threads.submit(int).result()


def await_a_thread() -> None:
    """asyncio's way to one."""
    asyncio.run(asyncio.to_thread(int))


def await_the_orm() -> None:
    """Which goes through a thread too."""
    asyncio.run(Group.objects.acreate(name="no"))


def use_another_alias() -> None:
    """Of Django, on the same database."""
    Group.objects.using("other").create(name="no")


def use_another_engine() -> None:
    """Of Django, open already."""
    with connections["ledger"].cursor() as cursor:
        cursor.execute("CREATE TABLE IF NOT EXISTS line (id integer)")


def open_sqlite() -> None:
    """A database in a file."""
    sqlite3.connect("no.sqlite3").close()


def open_psycopg() -> None:
    """A connection of its own."""
    psycopg.connect(conninfo()).close()


def open_psycopg_async() -> None:
    """The same for event loops."""

    async def connect() -> None:
        await (await psycopg.AsyncConnection.connect(conninfo())).close()

    asyncio.run(connect())


def use_an_open_psycopg() -> None:
    """A connection that was open before."""
    with pools["open"].connection() as other:
        other.execute("INSERT INTO auth_group (name) VALUES ('no')")


def look_up_a_name() -> None:
    """By the system's resolver, which goes out."""
    socket.gethostbyname("localhost")


# What it may do.


def keep_a_loop() -> int:
    """An event loop that stays in its thread."""
    return asyncio.run(_one())


def use_sqlite_in_memory() -> int:
    """A database that ends with the function."""
    with closing(sqlite3.connect(":memory:")) as memory:
        return int(memory.execute("SELECT 1").fetchone()[0])


def use_the_drivers_cursor() -> int:
    """The same connection, without Django's wrapper around it."""
    connection.ensure_connection()
    return int(connection.connection.execute("SELECT 1").fetchone()[0])


def leave_it_to_a_hook() -> None:
    """After the commit."""
    transaction.on_commit(run_a_program)


async def _one() -> int:
    await asyncio.sleep(0)
    return 1


def _in_a_thread() -> None:
    try:
        Group.objects.create(name="no")
    finally:
        connections.close_all()


@mutation
def in_a_mutation(*, name: str) -> int | None:
    """Do one of the above."""
    result: int | None = globals()[name]()
    return result


# What an action must not do: to write past its mutations, in each of these ways.


def write_async() -> None:
    """The ORM's own async interface."""
    asyncio.run(Group.objects.acreate(name="no"))


def write_async_with_asgiref() -> None:
    """The same on the loop that asgiref makes."""

    async def write() -> None:
        await Group.objects.acreate(name="no")

    async_to_sync(write)()


def write_in_a_thread() -> None:
    """Of one's own."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            _in_a_thread()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def write_in_a_new_pool() -> None:
    """Of threads."""
    with ThreadPoolExecutor(max_workers=1) as threads:
        threads.submit(_in_a_thread).result()


def write_in_a_thread_that_waits() -> None:
    """Of a pool that is older than the action."""
    busy_threads.submit(_in_a_thread).result()


def write_by_to_thread() -> None:
    """asyncio's way to a thread."""
    asyncio.run(asyncio.to_thread(_in_a_thread))


def write_by_copy() -> None:
    """COPY has no statement that Django sees."""
    connection.ensure_connection()
    with connection.cursor() as cursor, cursor.copy("COPY auth_group (name) FROM STDIN") as copy:
        copy.write_row(("no",))


def write_by_the_drivers_cursor() -> None:
    """psycopg's, on Django's connection."""
    connection.ensure_connection()
    with connection.connection.cursor() as cursor:
        cursor.execute("INSERT INTO auth_group (name) VALUES ('no')")


def write_many_by_the_drivers_cursor() -> None:
    """The same for many rows."""
    connection.ensure_connection()
    with connection.connection.cursor() as cursor:
        cursor.executemany("INSERT INTO auth_group (name) VALUES (%s)", [("no",), ("never",)])


def write_by_the_drivers_connection() -> None:
    """psycopg's short form, with a composed statement."""
    connection.ensure_connection()
    connection.connection.execute(sql.SQL("INSERT INTO {} (name) VALUES ('no')").format(sql.Identifier("auth_group")))


def write_on_a_connection_of_its_own() -> None:
    """To the farm's database."""
    with psycopg.connect(conninfo()) as own:
        own.execute("INSERT INTO auth_group (name) VALUES ('no')")


def write_on_an_async_connection_of_its_own() -> None:
    """The same for event loops."""

    async def write() -> None:
        async with await psycopg.AsyncConnection.connect(conninfo()) as own:
            await own.execute("INSERT INTO auth_group (name) VALUES ('no')")

    asyncio.run(write())


def write_by_another_alias() -> None:
    """Of Django, to the farm's database."""
    Group.objects.using("other").create(name="no")


def write_by_a_function() -> None:
    """Of SQL, called outside of a transaction."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT make_group_of_test('no')")


def write_by_a_second_statement() -> None:
    """Behind the first."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1; INSERT INTO auth_group (name) VALUES ('no')")


# What it may do.


@mutation
def make_group(*, name: str) -> None:
    """As it should be."""
    Group.objects.create(name=name)


def call_a_mutation_in_a_thread() -> None:
    """The write is the mutation's."""
    busy_threads.submit(_with_connection_closed, make_group, name="yes").result()


def await_a_mutation() -> None:
    """The same from an event loop."""
    asyncio.run(sync_to_async(make_group)(name="yes"))


def schedule_in_a_thread() -> None:
    """The write is the scheduler's."""
    busy_threads.submit(_with_connection_closed, scheduling.run_after, 0, make_group, name="yes").result()


def take_from_limits() -> None:
    """Which is stored at once, whatever becomes of the action."""
    config = limits.TokenBucket(rate=8, period=timedelta(hours=1))
    limits.limit("one of this test", config=config, throws=True)
    limits.limit("shards of this test", config=replace(config, shards=2), throws=True)
    limits.limit_all([limits.LimitRequest(name="one of this test", config=config)], throws=True)
    limits.give_back("one of this test", config=config)


def _with_connection_closed(function: object, *args: object, **options: object) -> None:
    try:
        function(*args, **options)  # type: ignore[operator]
    finally:
        connections.close_all()


def read_in_every_way() -> int:
    """None of them writes."""
    names = asyncio.run(_names())
    with connection.cursor() as cursor, cursor.copy("COPY (SELECT name FROM auth_group) TO STDOUT") as copy:
        names += [row[0] for row in copy.rows()]
    with transaction.atomic():
        names += list(Group.objects.select_for_update().values_list("name", flat=True))
    with psycopg.connect(conninfo()) as own:
        names += [row[0] for row in own.execute("SELECT upper(name) FROM auth_group")]
    return len(names)


async def _names() -> list[str]:
    return [group.name async for group in Group.objects.all()]


def write_to_a_database_elsewhere() -> None:
    """That is the world outside."""
    with psycopg.connect(conninfo(), dbname="postgres", autocommit=True) as elsewhere:
        elsewhere.execute("CREATE TEMPORARY TABLE line (id integer)")


@action()
def in_an_action(*, name: str) -> int | None:
    """Do one of the above."""
    result: int | None = globals()[name]()
    return result
