"""The receivers of docs/outbox.md, run as they stand there, take what the farm sends and nothing else."""

import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from pytest_django import Settings

from outbox import operations
from outbox.models import Message
from outbox.operations import endpoints
from tests import documented
from tests.outbox.receivers import HERE
from tests.outbox.support import drain, endpoint
from tests.ports import free_port

pytestmark = pytest.mark.django_db(transaction=True)
SAMPLES = {
    "python": documented.block("outbox.md", "import json"),
    "javascript": documented.block("outbox.md", "const {"),
}
LANGUAGES = {"python": (sys.executable, "receiver.py"), "javascript": ("node", "receiver.js")}
STARTS_WITHIN_S = 30


def sample(language: str) -> str:
    """The example in this language."""
    return SAMPLES[language]


@contextmanager
def running(language: str, secret: str, folder: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """The example as a process that listens; where, and the process."""
    port = free_port()
    program, name = LANGUAGES[language]
    (folder / name).write_text(sample(language))
    command = [program, str(folder / name), secret, str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        deadline = time.monotonic() + STARTS_WITHIN_S
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert time.monotonic() < deadline
            select.select([], [], [], 0.05)
        yield f"http://127.0.0.1:{port}/", process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize("language", LANGUAGES)
def test_takes_what_the_farm_sends_and_refuses_what_is_changed(
    language: str, settings: Settings, tmp_path: Path
) -> None:
    settings.OUTBOX = {**settings.OUTBOX, "ALLOWED_NETWORKS": HERE}
    row = endpoint()
    [secret] = endpoints.secrets_of([row.pk])[row.pk]
    with running(language, secret, tmp_path) as (url, process):
        row.url = url
        row.save()
        operations.record("queue.paused", "queue/gpu", {"queue": "gpü"})
        drain()
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            forged = httpx.post(url, json={"type": "queue.paused"}, headers=_forged()).status_code
        except httpx.RemoteProtocolError:  # Python's receiver raises, and hangs up
            forged = 500
    assert Message.objects.get().status == "delivered"
    assert line.startswith("msg_")
    assert "queue.paused" in line
    assert forged >= 400


@pytest.mark.parametrize("language", LANGUAGES)
def test_is_short(language: str) -> None:
    assert len([line for line in sample(language).splitlines() if line]) <= 13


def _forged() -> dict[str, str]:
    signature = "v1," + "A" * 43 + "="
    return {"webhook-id": "msg_1", "webhook-timestamp": str(int(time.time())), "webhook-signature": signature}
