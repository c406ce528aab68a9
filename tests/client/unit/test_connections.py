"""Clients and their connections, at a server of whose farm nothing else is there: each job has the number of the
connection that it was read by."""

import json
import multiprocessing
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from jobfarm_client import Client, Unreachable, WrongServer

JOB: dict[str, Any] = {"kind": "work", "queue": "q", "status": "pending", "jobs": [], "next": None}


class Strange(ThreadingHTTPServer):
    """Answers at once with JSON, to event streams without an end."""

    daemon_threads = True
    request_queue_size = 200
    answer: Any = None

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.streams = threading.Semaphore(0)
        self.ending = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Strange
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer."""
        if self.path.partition("?")[0].endswith("/events"):
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: hello\n\n")
            self.server.streams.release()
            self.server.ending.wait(30)
            self.close_connection = True
            return
        body = json.dumps(self.server.answer or {"id": self.client_address[1], **JOB}).encode()
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class calls it so)
        """Say nothing."""


@pytest.fixture
def strange() -> Iterator[Strange]:
    with Strange() as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.ending.set()
        server.shutdown()
        thread.join()


def test_a_forked_process_has_connections_of_its_own(strange: Strange) -> None:
    """By those of its parent each read answers that were for the other."""
    forking = multiprocessing.get_context("fork")
    with Client(strange.url, "t", retry_for_s=0) as farm:
        first, theirs = farm.job(1).id, forking.SimpleQueue()
        child = forking.Process(target=lambda: theirs.put(farm.job(1).id))
        child.start()
        child.join(20)
        assert not theirs.empty()
        assert theirs.get() != first
        assert farm.job(1).id == first


def test_as_many_streams_as_one_likes_leave_room_for_calls(strange: Strange) -> None:
    """The hundredth stream was the last, and what else was called waited for one to end."""
    with Client(strange.url, "t", timeout_s=5, retry_for_s=0) as farm, ThreadPoolExecutor(101) as pool:
        follows = [pool.submit(next, farm.events_that_match(), None) for _ in range(101)]
        try:
            assert all(strange.streams.acquire(timeout=12) for _ in follows)
            assert farm.job(1).kind == "work"
        finally:
            strange.ending.set()


def test_json_that_no_farm_answers_is_no_farms(strange: Strange) -> None:
    """A gateway's 200 ended as a KeyError or a TypeError."""
    calls: list[Any] = [
        lambda farm: farm.job(1), lambda farm: farm.flow(1), lambda farm: farm.bulk_action(1),
        lambda farm: farm.why(1), lambda farm: next(farm.jobs()),
    ]  # fmt: skip
    strange.answer = {"message": "Down for maintenance."}
    for call in calls:
        with Client(strange.url, "t", retry_for_s=0) as farm:
            with pytest.raises(WrongServer):
                call(farm)
            strange.answer = None
            assert farm.job(1).kind == "work"
            strange.answer = {"message": "Down for maintenance."}
            with pytest.raises(Unreachable):
                call(farm)
