"""A janitor that freezes, is killed, is stopped or was never there is told within half a minute, wherever one looks."""

import contextlib
import html
import io
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from datetime import timedelta

import httpx
import pytest
import websockets
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db.models.functions import Now
from websockets.sync.client import ClientConnection, connect

from jobs.models import Process
from tests import farm
from tests.concurrency.presence import running
from tests.servers import Server, serve

pytestmark = pytest.mark.django_db(transaction=True)
TOLD_WITHIN_S = 30


def doctor() -> str:
    """What `manage.py doctor` says."""
    said = io.StringIO()
    with contextlib.suppress(SystemExit):  # it found something
        call_command("doctor", stdout=said)
    return said.getvalue()


def ready(server: Server) -> dict[str, object]:
    """What /health/ready says of the janitor. The server can serve all the while."""
    answer = httpx.get(f"{server.url}/health/ready", timeout=20)
    assert answer.status_code == 200
    found: dict[str, object] = answer.json()["checks"]["janitor"]
    return found


def overview(server: Server, cookies: dict[str, str]) -> list[str]:
    """The findings on the overview page."""
    page = httpx.get(f"{server.url}/", cookies=cookies, timeout=20)
    assert page.status_code == 200
    return [html.unescape(found) for found in re.findall(r'<div class="notice[^"]*">(.*?)</div>', page.text)]


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
    while words not in str(page.recv(timeout=TOLD_WITHIN_S)):
        pass
    return True


@pytest.fixture
def cookies() -> dict[str, str]:
    """Those of an operator."""
    return running.session_of(User.objects.create_superuser("root"))


class TestAFrozenJanitor:
    def test_is_told_everywhere_until_it_goes_on(self, cookies: dict[str, str]) -> None:
        with serve() as server, running.janitor() as janitor, open_page(server, cookies) as page:
            assert ready(server) == {"status": "ok"}
            assert "janitor" not in " ".join(overview(server, cookies))
            with running.frozen(janitor.pid):
                since = time.monotonic()
                farm.until(
                    lambda: (
                        ready(server)["status"] == "error"
                        and f"pid {janitor.pid}" in doctor()
                        and any(f"pid {janitor.pid}" in finding for finding in overview(server, cookies))
                    ),
                    within_s=TOLD_WITHIN_S + 20,
                    what="the finding",
                )
                assert shows(page, f"pid {janitor.pid}")
                assert time.monotonic() - since < TOLD_WITHIN_S
                messages = ready(server)["messages"]
                assert isinstance(messages, list)
                assert re.fullmatch(r"A janitor has not reported for \d+ s\.", messages[0])
            farm.until(
                lambda: (
                    ready(server) == {"status": "ok"}
                    and "has not reported" not in doctor()
                    and "janitor" not in " ".join(overview(server, cookies))
                ),
                what="the end of the finding",
            )


class TestAKilledJanitor:
    def test_is_silent_first_and_then_gone_and_matters_no_more_once_there_is_another(self) -> None:
        with running.janitor() as killed:
            killed.kill()
            killed.wait()
        rows = Process.objects.filter(pid=killed.pid)
        rows.update(seen_at=Now() - timedelta(seconds=20), started_at=Now() - timedelta(hours=1))
        assert re.search(r"WRONG  A janitor has not reported for \d+ s\.", doctor())
        rows.update(seen_at=Now() - timedelta(seconds=61))
        said = doctor()
        assert "WRONG  No janitor runs" in said
        assert f"pid {killed.pid}" in said
        with running.janitor():
            assert "1 janitor runs." in doctor()
            assert f"pid {killed.pid}" not in doctor()


class TestAStoppedJanitor:
    def test_says_that_it_ends_and_is_missing_soon(self) -> None:
        with running.janitor() as stopped:
            os.kill(stopped.pid, signal.SIGTERM)
            assert stopped.wait(20) == 0
        row = Process.objects.get(pid=stopped.pid)
        assert row.ended_at is not None
        assert "WRONG  No janitor" not in doctor()  # a restart is no alarm
        Process.objects.update(seen_at=Now() - timedelta(seconds=16))
        assert "WRONG  No janitor runs" in doctor()


class TestAJanitorThatCannotSweep:
    def test_falls_silent_although_its_process_lives(self) -> None:
        """Its first statement waits for a lock that nobody gives back: it is there, and does nothing."""
        with running.janitor() as janitor, running.locked("jobs_job"):
            seen = Process.objects.get(pid=janitor.pid).seen_at
            # Longer than it may take to come round, and no report came.
            farm.until(
                lambda: Process.objects.filter(pid=janitor.pid, seen_at__lt=Now() - timedelta(seconds=9)),
                what="its silence",
            )
            assert Process.objects.get(pid=janitor.pid).seen_at - seen < timedelta(seconds=5)
