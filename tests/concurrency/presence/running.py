"""Real processes of a farm, on the database of the test: to be frozen, killed and stopped."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator

from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client

from jobs.models import Process
from tests import farm
from tests.servers import ROOT, Server


@contextlib.contextmanager
def janitor(**environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    """A janitor that has reported; killed at the end, whatever the test did to it."""
    name = {"JOBFARM_TEST_DATABASE": str(connection.settings_dict["NAME"])}
    command = [sys.executable, "manage.py", "janitor", "--skip-checks"]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, **name, **environment})
    try:
        farm.until(lambda: Process.objects.filter(pid=process.pid).exists(), what="the janitor's report")
        yield process
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Stop a process for the length of the block, as a suspended machine does."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def locked(table: str) -> Iterator[None]:
    """Let nobody else read or write this table for the length of the block."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        yield


@contextlib.contextmanager
def row_locked(table: str) -> Iterator[None]:
    """Hold a lock on every row of this table for the length of the block."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"SELECT FROM {table} FOR UPDATE")
        yield


@contextlib.contextmanager
def asked(server: Server, path: str) -> Iterator[None]:
    """Have a worker's call under way, which ends after the block."""
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as caller:
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer jfw_x\r\nContent-Length: 2\r\n"
        )
        caller.sendall(f"{head}Content-Type: application/json\r\nConnection: close\r\n\r\n{{}}".encode())
        yield


def session_of(user: User) -> dict[str, str]:
    """The cookies of somebody who is logged in."""
    client = Client()
    client.force_login(user)
    return {name: morsel.value for name, morsel in client.cookies.items()}


def row_of(server: Server) -> Process:
    """The row of a web process."""
    return Process.objects.get(part="web", pid=server.pid)
