"""Who sends much, slowly or nothing at all must not keep others out."""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import httpx
import pytest

from tests.servers import Server
from tests.webhooks.edges.sender import Given, post, sample, signed
from webhooks.domain.deliveries import Source
from webhooks.http import child_process
from webhooks.models import Delivery, Refusal
from webhooks.sources import configs

pytestmark = pytest.mark.usefixtures("transactional_db")
Secrets = dict[Source, str]

LIMIT = configs.CONFIGS[Source.GITHUB].body_limit


@pytest.fixture
def client(server: Server) -> Iterator[httpx.Client]:
    """Connections that stay open."""
    with httpx.Client(base_url=server.url, timeout=60) as opened:
        yield opened


def head(given: Given, *, length: int) -> bytes:
    """The first lines of a request that announces so many bytes."""
    lines = [f"POST {given.path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {length}"]
    lines += [f"{name}: {value}" for name, value in given.headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


@contextmanager
def connected(server: Server) -> Iterator[socket.socket]:
    """A connection that can be left half used."""
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30) as opened:
        yield opened


@contextmanager
def idle(server: Server, given: Given, *, number: int) -> Iterator[None]:
    """So many connections that announce the largest body there may be, send one byte of it, and wait."""
    length = configs.CONFIGS[given.source].body_limit
    with ExitStack() as stack:
        for _ in range(number):
            stack.enter_context(connected(server)).sendall(head(given, length=length) + b"{")
        yield


class TestConnectionsThatSendNothing:
    def test_keep_nobody_out_whatever_they_announce(
        self, server: Server, client: httpx.Client, secrets: Secrets
    ) -> None:
        """Ten that announced 25 MB and six that announced one had all of the room: every source answered 503, for as
        long as somebody liked."""
        lazy = [signed(source, b"{}", secrets[source]) for source in (Source.GITHUB, Source.CLERK)]
        with idle(server, lazy[0], number=10), idle(server, lazy[1], number=7):
            client.get("/health/live")  # the server has been round its connections by then
            for source in (Source.GITHUB, Source.STRIPE, Source.CLERK):
                document, event_type = sample(source)
                answer = post(client, signed(source, document, secrets[source], event_type=event_type))
                assert answer.status_code == 200, (source, answer.text)

    def test_are_refused_before_they_send_a_body_where_no_body_could_be_right(
        self, server: Server, secrets: Secrets
    ) -> None:
        for broken in ({}, {"X-Hub-Signature-256": "no signature at all\u00e9"}):
            given = Given(
                source=Source.GITHUB,
                body=b"",
                headers={"Content-Type": "application/json", "X-GitHub-Event": "push"} | broken,
            )
            with connected(server) as opened:
                opened.sendall(head(given, length=LIMIT))
                assert opened.recv(100).startswith(b"HTTP/1.1 401")
        old = signed(Source.STRIPE, b"{}", secrets[Source.STRIPE], now=_long_ago())
        with connected(server) as opened:
            opened.sendall(head(old, length=1 << 20))
            assert opened.recv(100).startswith(b"HTTP/1.1 401")
        assert {*Refusal.objects.values_list("source", "reason", "count")} == {
            ("github", "missing_signature", 1),
            ("github", "malformed_signature", 1),
            ("stripe", "too_old", 1),
        }

    def test_are_given_up_by_a_least_rate_and_counted(self, server: Server, secrets: Secrets) -> None:
        with connected(server) as opened:
            opened.sendall(head(signed(Source.GITHUB, b"{}", secrets[Source.GITHUB]), length=LIMIT) + b"{")
            began = time.monotonic()
            assert opened.recv(100).startswith(b"HTTP/1.1 408")
            assert time.monotonic() - began < 20  # 5 s and what one byte is worth; it was 30
        assert list(Refusal.objects.values_list("source", "reason", "count")) == [("github", "too_slow", 1)]


class TestALargeBody:
    def test_is_taken_and_nobody_waits_for_it(self, client: httpx.Client, server: Server, secrets: Secrets) -> None:
        """It takes seconds to parse. Before, that was in the process that answers all others."""
        commit = {"id": "0" * 40, "message": "m" * 900, "author": {"name": "n"}}
        large = signed(
            Source.GITHUB, json.dumps({"commits": [commit] * 6_000}).encode(), secrets[Source.GITHUB], event_type="push"
        )
        assert len(large.body) > 5 * child_process.LARGE_BYTES
        answered = 0
        with ThreadPoolExecutor(1) as pool:
            taken = pool.submit(
                httpx.post, server.url + large.path, content=large.body, headers=dict(large.headers), timeout=60
            )
            while not taken.done():
                document, event_type = sample(Source.STRIPE, answered)
                given = signed(Source.STRIPE, document, secrets[Source.STRIPE], event_type=event_type)
                assert post(client, given).status_code == 200
                answered += 1
        assert taken.result().status_code == 200, taken.result().text
        assert answered > 5
        stored = Delivery.objects.get(source="github")
        assert (stored.event_type, len(bytes(stored.body))) == ("push", len(large.body))

    def test_that_is_no_json_is_rejected_as_any_other(self, client: httpx.Client, secrets: Secrets) -> None:
        broken = b'{"a": ' * (child_process.LARGE_BYTES // 3)
        answer = post(client, signed(Source.GITHUB, broken, secrets[Source.GITHUB], event_type="push"))
        assert (answer.status_code, answer.json()["error"]) == (400, "rejected")
        assert "nested" in answer.json()["message"]


def _long_ago() -> datetime:
    return datetime.now(UTC) - timedelta(hours=1)
