"""Both sockets under whatever strangers may say and do: never a 5xx, never closed for a fault of ours, others go on."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from hypothesis import given, strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from jobs import operations
from live import registry
from tests import farm
from tests.api.edges import callers
from tests.api.edges.callers import PATIENCE_S, Crew
from tests.fuzz import crowd, messages
from tests.fuzz.effort import effort
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
NOT_A_PAGE = 4400
NO_TEXT = 1007  # of a text frame that is no UTF-8 (RFC 6455)
CROWD = 1000
MOST_CONNECTIONS = 40  # to the database: 20 of the process, its listener, and ours
MEGABYTE = 1_000_000
# What they may leave behind: nothing grows with their number, but the allocator keeps what it had at the peak.
MOST_LEFT_BYTES = 15 * MEGABYTE


def _page(server: Server) -> ClientConnection:
    return connect(f"{server.ws_url}/ws/live/", additional_headers={"Origin": server.url})


def _pongs(page: ClientConnection) -> bool:
    page.send('{"ping": 1}')
    return any(json.loads(page.recv(PATIENCE_S)) == {"pong": True} for _ in range(50))


@pytest.fixture
def bystander(server: Server) -> Iterator[ClientConnection]:
    """A page that looks on; it must be there at the end as it was at the beginning."""
    with _page(server) as page:
        assert _pongs(page)
        yield page
        assert _pongs(page)


def test_whatever_a_worker_says_is_answered_and_the_socket_lives_on(
    server: Server, crew: Crew, ada: User, bystander: ClientConnection
) -> None:
    operations.submit("chat", {}, owner=ada)
    job = crew.claim_one()
    with crew.socket() as socket, callers.crew(server).socket() as another:

        @effort(examples=40)
        @given(sent=st.lists(messages.of_workers(job=job["id"], lease=job["lease"]), min_size=1, max_size=20))
        def answers(sent: list[str | bytes]) -> None:
            for message in sent:
                socket.send(message)
            replies = [_answer(socket) for _ in sent]
            assert {answer["type"] for answer in replies} <= _TYPES
            assert [answer for answer in replies if answer.get("status", 0) in range(500, 600)] == []
            assert all(answer["message"] for answer in replies if answer["type"] == "error")

        answers()
        assert callers.ask(socket, type="claim", ref="still here")["ref"] == "still here"
        assert callers.ask(another, type="claim", ref="here too")["ref"] == "here too"


_TYPES = {"error", "claim", "heartbeat", "heartbeat_many", "output", "finish", "finish_many", "release", "unclaim"}


def _answer(socket: ClientConnection) -> dict[str, Any]:
    return next(replies for replies in callers.messages_of(socket) if replies["type"] not in {"work", "stop"})


def test_whatever_a_page_says_ends_at_most_its_own_socket(server: Server, bystander: ClientConnection) -> None:
    names = [query.name for query in registry.everything() if not query.name.startswith("test-")]

    @effort(examples=60)
    @given(sent=st.lists(messages.of_pages(names), min_size=1, max_size=8))
    def ends_or_goes_on(sent: list[str | bytes]) -> None:
        with _page(server) as page:
            assert _close_code(page, sent) in {None, NOT_A_PAGE}

    ends_or_goes_on()


def _close_code(page: ClientConnection, sent: list[str | bytes]) -> int | None:
    """How the server closed the socket on hearing this; None if it goes on."""
    try:
        for message in sent:
            page.send(message)
        return None if _pongs(page) else -1
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else -1


def test_a_frame_that_is_no_text_ends_its_own_socket(server: Server, crew: Crew, bystander: ClientConnection) -> None:
    with _page(server) as page, crew.socket() as socket:
        for each in (page, socket):
            each.send(b'{"ping": "\xff\xfe"}', text=True)
            with pytest.raises(ConnectionClosed):
                list(each)  # whatever was on its way, up to the end
            assert each.close_code == NO_TEXT


def test_a_thousand_that_say_garbage_and_drop_leave_nothing_behind(server: Server, crew: Crew) -> None:
    headers = f"Origin: {server.url}\r\nAuthorization: Bearer {crew.key}\r\n"
    with crew.socket() as socket:
        # Threads, connections and caches are there from now on.
        asyncio.run(crowd.come_and_go(server.url, count=200, headers=headers))
        assert callers.ask(socket, type="claim", ref=1)["jobs"] == []
        files = crowd.settled(server)
        memory = crowd.resident_bytes(server)
        asyncio.run(crowd.come_and_go(server.url, count=CROWD, headers=headers))
        farm.until(lambda: crowd.open_files(server) <= files, what="the end of their files")
        assert crowd.backends() < MOST_CONNECTIONS
        assert callers.ask(socket, type="claim", ref=2)["jobs"] == []
        assert crowd.resident_bytes(server) - memory < MOST_LEFT_BYTES


def test_one_that_does_not_read_slows_nobody_down(server: Server, crew: Crew, ada: User) -> None:
    """Eight megabytes are written for two pages; one does not read, the other has them all, and then the first too."""
    operations.submit("chat", {}, owner=ada)
    job = crew.claim_one()
    watch_request = {"watch": [{"id": "a", "name": "job-output", "args": {"job_id": job["id"]}}]}
    with (
        crowd.stubborn(server, **watch_request) as slow,
        connect(f"{server.ws_url}/ws/live/", additional_headers=crowd.as_page_of(server), max_size=None) as quick,
    ):
        quick.send(json.dumps(watch_request))
        for seq in range(16):
            written = crew.post(f"jobs/{job['id']}/output", lease=job["lease"], seq=seq, text="x" * (MEGABYTE // 2))
            assert written.status_code == 200
        assert _bytes_of(quick) == 8 * MEGABYTE
        assert crowd.resident_bytes(server) < 500 * MEGABYTE
        assert _bytes_of(slow) == 8 * MEGABYTE


def _bytes_of(page: ClientConnection) -> int:
    """How many characters of output came, up to all that were written."""
    count = 0
    while count < 8 * MEGABYTE:
        message = json.loads(page.recv(PATIENCE_S))
        count += sum(len(_text(item["data"])) for item in message.get("items", []))
    return count


def _text(data: Any) -> str:
    return str(data if isinstance(data, str) else data["text"])
