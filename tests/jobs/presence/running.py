"""Real processes of a farm, on the database of the test: to be frozen, killed and stopped."""

import contextlib
import html
import io
import json
import os
import re
import signal
import socket
from collections.abc import Iterator

import httpx
import websockets
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from websockets.sync.client import ClientConnection, connect

from jobs import models
from tests import farm, forkserver
from tests.servers import Server

REPORTED_WITHIN_S = 30


@contextlib.contextmanager
def janitor(*words: str, **environment: str) -> Iterator[forkserver.Process]:
    """A janitor that has reported; killed at the end, whatever the test did to it."""
    name = {"JOBFARM_TEST_DATABASE": str(connection.settings_dict["NAME"])}
    command = ["manage.py", "janitor", "--skip-checks", *words]
    process = forkserver.Process(command, env={**os.environ, **name, **environment}, loaded=True)
    try:
        farm.until(lambda: models.Process.objects.filter(pid=process.pid).exists(), what="the janitor's report")
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
def requested(server: Server, path: str) -> Iterator[None]:
    """Have a worker's call under way, which ends after the block."""
    with socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2]))) as caller:
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer jfw_x\r\nContent-Length: 2\r\n"
        caller.sendall(f"{head}Content-Type: application/json\r\nConnection: close\r\n\r\n{{}}".encode())
        yield


def session_of(user: User) -> dict[str, str]:
    """The cookies of somebody who is logged in."""
    client = Client()
    client.force_login(user)
    return {name: morsel.value for name, morsel in client.cookies.items()}


def row_of(server: Server) -> models.Process:
    """The row of a web process."""
    return models.Process.objects.get(part="web", pid=server.pid)


def doctor() -> str:
    """What `manage.py doctor` says."""
    output = io.StringIO()
    with contextlib.suppress(SystemExit):  # it found something
        call_command("doctor", stdout=output)
    return output.getvalue()


def ready(server: Server, check: str) -> dict[str, object]:
    """What /health/ready says of one thing. The server can serve all the while."""
    answer = httpx.get(f"{server.url}/health/ready", timeout=20)
    assert answer.status_code == 200
    found: dict[str, object] = answer.json()["checks"][check]
    return found


def overview(server: Server, cookies: dict[str, str]) -> list[str]:
    """The findings on the overview page."""
    page = httpx.get(f"{server.url}/", cookies=cookies, timeout=20)
    assert page.status_code == 200
    return [html.unescape(found) for found in re.findall(r'<div class="notice[^"]*">(.*?)</div>', page.text, re.DOTALL)]


@contextlib.contextmanager
def open_page(server: Server, cookies: dict[str, str]) -> Iterator[ClientConnection]:
    """The overview, left open in a browser."""
    cookie = {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}
    origin = websockets.Origin(server.url)
    with connect(f"{server.ws_url}/ws/live/", origin=origin, additional_headers=cookie) as page:
        page.send(json.dumps({"watch": [{"id": "a", "name": "overview-warnings", "args": {}}]}))
        yield page


def shows(page: ClientConnection, words: str) -> bool:
    """Wait until the open page is sent these words."""
    while words not in str(page.recv(timeout=REPORTED_WITHIN_S)):
        pass
    return True
