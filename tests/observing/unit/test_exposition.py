"""A process that serves no pages shows its numbers to Prometheus."""

import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from observing.numbers import ANSWERED_WITHIN_S, Exposition, NoMetricsToken, address

TOKEN = "a-token-of-prometheus"


@pytest.fixture
def shown() -> Iterator[Exposition]:
    """One that is asked in a thread of its own."""
    made = Exposition(("127.0.0.1", 0), token=TOKEN, render=lambda: b"jobfarm_x 1\n")
    threading.Thread(target=made.serve, daemon=True).start()
    yield made
    made.close()


def get(shown: Exposition, path: str = "/metrics", token: str = TOKEN) -> httpx.Response:
    return httpx.get(f"http://127.0.0.1:{shown.port}{path}", headers={"Authorization": f"Bearer {token}"})


def test_answers_who_has_the_token(shown: Exposition) -> None:
    answer = get(shown)
    assert (answer.status_code, answer.text) == (200, "jobfarm_x 1\n")
    assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize(
    ("path", "token", "status"), [("/metrics", "wrong", 401), ("/", TOKEN, 404), ("/metricsx", TOKEN, 404)]
)
def test_tells_others_nothing(shown: Exposition, path: str, token: str, status: int) -> None:
    answer = get(shown, path, token)
    assert (answer.status_code, answer.content) == (status, b"")


def test_who_says_nothing_or_too_much_keeps_nobody_waiting(shown: Exposition) -> None:
    silent = socket.create_connection(("127.0.0.1", shown.port))
    endless = socket.create_connection(("127.0.0.1", shown.port))
    endless.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 20_000)
    since = time.monotonic()
    assert get(shown).status_code == 200
    assert time.monotonic() - since < 2 * ANSWERED_WITHIN_S + 1
    silent.close()
    endless.close()


def test_takes_a_token() -> None:
    with pytest.raises(NoMetricsToken):
        Exposition(("127.0.0.1", 0), token="", render=bytes)


@pytest.mark.parametrize(
    ("text", "known"), [("9101", ("127.0.0.1", 9101)), ("0.0.0.0:9101", ("0.0.0.0", 9101)), ("[::]:9101", ("::", 9101))]
)
def test_an_address_is_a_port_with_or_without_a_host(text: str, known: tuple[str, int]) -> None:
    assert address(text) == known


@pytest.mark.parametrize("text", ["", "host:", "70000", "-1"])
def test_nothing_else_is_an_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        address(text)
