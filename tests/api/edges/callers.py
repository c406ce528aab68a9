"""Callers for the edge tests: people and workers with their keys, over HTTP, sockets and event streams."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from django.contrib.auth.models import User
from websockets.sync.client import ClientConnection, connect

from accounts import operations as accounts
from jobs import operations
from jobs.models import Worker
from tests.servers import Server

PATIENCE_S = 20


def client(server: Server, user: User) -> httpx.Client:
    """A caller with an API token of this person."""
    _, token = accounts.create_token(user, name="tests")
    return _http(server, token)


@dataclass
class Crew:
    """A worker with its key, and a caller with that."""

    server: Server
    worker: Worker
    key: str
    http: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.http = _http(self.server, self.key)

    def post(self, path: str, **body: Any) -> httpx.Response:
        """Call one verb."""
        return self.http.post(f"/api/v1/worker/{path}", json=body)

    def claim(self, **body: Any) -> list[dict[str, Any]]:
        """The jobs that a claim gives."""
        response = self.post("claim", **body)
        assert response.status_code == 200, response.text
        jobs: list[dict[str, Any]] = response.json()["jobs"]
        return jobs

    def claim_one(self, **body: Any) -> dict[str, Any]:
        """The one job that a claim gives."""
        [job] = self.claim(**body)
        return job

    def socket(self) -> ClientConnection:
        """A WebSocket with the worker's key."""
        return connect(f"{self.server.ws_url}/ws/worker/", additional_headers=bearer(self.key))


def crew(server: Server, *queues: str, owner: User | None = None, steals: tuple[str, ...] = ()) -> Crew:
    """A new worker of these queues (chat if none are named)."""
    worker, key = operations.create_worker("w", queues=queues or ("chat",), owner=owner, steals=steals)
    return Crew(server, worker, key)


def close_all() -> None:
    """Close all callers that were made, at the end of a test."""
    while _open:
        _open.pop().close()


def close_with_the_others(client: httpx.Client) -> None:
    """Let `close_all` close this caller too."""
    _open.append(client)


def _http(server: Server, key: str) -> httpx.Client:
    _open.append(httpx.Client(base_url=server.url, headers=bearer(key), timeout=PATIENCE_S))
    return _open[-1]


_open: list[httpx.Client] = []


def bearer(key: str) -> dict[str, str]:
    """The header that carries a key."""
    return {"Authorization": f"Bearer {key}"}


def ask(socket: ClientConnection, **message: Any) -> dict[str, Any]:
    """Send one message and return what comes next that is no push."""
    socket.send(json.dumps(message))
    return next(answer for answer in messages_of(socket) if answer["type"] not in {"work", "stop", "drained"})


def push(socket: ClientConnection, kind: str) -> dict[str, Any]:
    """The next push of this kind."""
    return next(message for message in messages_of(socket) if message["type"] == kind)


def messages_of(socket: ClientConnection) -> Iterator[dict[str, Any]]:
    """What comes over a socket, each within the patience."""
    while True:
        yield json.loads(socket.recv(timeout=PATIENCE_S))


@dataclass(frozen=True)
class Event:
    """One server-sent event."""

    name: str
    id: str
    data: Any


def events(lines: Iterator[str]) -> Iterator[Event]:
    """The events in the lines of a stream. One that only pings would never end: two in a row are an AssertionError."""
    fields: dict[str, str] = {}
    pings = 0
    for line in lines:
        pings = pings + 1 if line.startswith(":") else 0 if line.startswith("data") else pings
        assert pings < 2, "the stream goes on and has nothing to say"
        name, _, value = line.partition(": ")
        if line and name:
            fields[name] = value
        elif "data" in fields:
            yield Event(name=fields["event"], id=fields.get("id", ""), data=json.loads(fields["data"]))
            fields = {}
        else:
            fields = {}
