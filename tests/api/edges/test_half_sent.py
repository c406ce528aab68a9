"""Requests that are half sent: so many of an address, at a least rate; others are served meanwhile."""

import http.client
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from django.conf import settings

from tests import farm
from tests.api.edges.callers import PATIENCE_S, Crew
from tests.servers import Server

MOST = settings.JOBFARM["HALF_SENT_PER_ADDRESS"]
ELSEWHERE = "127.0.0.2"


def half_sent(server: Server, path: str, *, since: str = "127.0.0.1", body: bytes = b"") -> socket.socket:
    """A request of which so much of the body came, from an address."""
    host, port = server.url.removeprefix("http://").split(":")
    connection = socket.create_connection((host, int(port)), PATIENCE_S, source_address=(since, 0))
    head = (f"POST {path} HTTP/1.1", f"Host: {host}:{port}", "Content-Type: application/json", "Content-Length: 100")
    connection.sendall("\r\n".join([*head, "", ""]).encode() + body)
    return connection


def answer(connection: socket.socket) -> tuple[int, str, str]:
    """Status, Retry-After and error."""
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response.status, response.headers.get("Retry-After", ""), json.loads(response.read())["error"]


@pytest.fixture
def full(server: Server) -> Iterator[list[socket.socket]]:
    """As many as an address may have, some without a byte of their body."""
    with ExitStack() as stack:
        yield [stack.enter_context(half_sent(server, "/api/v1/jobs", body=b"{" * (n % 2))) for n in range(MOST)]


@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/worker/claim", "/accounts/login/", "/nowhere"])
def test_of_one_address_are_bounded(server: Server, full: list[socket.socket], path: str) -> None:
    def refused() -> bool:
        with half_sent(server, path) as one_more:
            return answer(one_more) == (429, "5", "too_many")

    assert refused()


def test_are_counted_for_their_address_alone_and_finished_ones_are_served(
    server: Server, crew: Crew, full: list[socket.socket]
) -> None:
    with half_sent(server, "/api/v1/jobs") as one_more:
        assert answer(one_more)[0] == 429
    with half_sent(server, "/api/v1/jobs", since=ELSEWHERE) as elsewhere:
        elsewhere.sendall(b"{" * 100)
        assert answer(elsewhere)[0] == 401
    assert crew.claim() == []  # what comes as a whole is not half sent


def test_count_until_they_are_whole_or_gone(server: Server, full: list[socket.socket]) -> None:
    full[0].sendall(b"{" * 100)
    assert answer(full[0])[0] == 401
    with half_sent(server, "/api/v1/jobs") as another:
        another.sendall(b"{" * 100)
        assert answer(another)[0] == 401
    for each in full:
        each.close()

    def is_free() -> bool:
        with half_sent(server, "/api/v1/jobs") as again:
            again.settimeout(0.5)  # one that is let in waits for its body
            try:
                return answer(again)[0] == 401
            except TimeoutError:
                return True

    farm.until(is_free, what="the room of those that are gone")
