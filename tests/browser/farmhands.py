"""Words for browser tests: work that is done while somebody looks on, and waiting for what a page shows."""

import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from django.core.files.base import ContentFile
from PIL import Image
from playwright.sync_api import Locator, Page, expect

from jobs import operations
from jobs.models import Worker

SOON_MS = 10_000  # what is pushed arrives within fractions of a second; two busy cores may be slow


def status(page: Page, word: str) -> None:
    """Wait until the job's page says that the job stands so."""
    expect(page.locator(".job-state .badge")).to_have_text(word, timeout=SOON_MS)


def shows(locator: Locator, text: str) -> None:
    """Wait until this part of a page holds this text."""
    expect(locator).to_contain_text(text, timeout=SOON_MS)


def output(page: Page, text: str) -> None:
    """Wait until the output is exactly this text."""
    expect(page.locator(".output")).to_have_text(text, timeout=SOON_MS, use_inner_text=False)


def write(by: Worker, claimed: operations.ClaimedJob, *texts: str, first: int = 0) -> None:
    """Write pieces of output, numbered from `first`."""
    for seq, text in enumerate(texts, first):
        operations.write_output(by, claimed.id, claimed.lease, seq=seq, text=text)


def paint(by: Worker, claimed: operations.ClaimedJob, colour: str, name: str = "preview.png") -> None:
    """Hand in a small picture of one colour."""
    file = io.BytesIO()
    Image.new("RGB", (8, 8), colour).save(file, "PNG")
    content = ContentFile(file.getvalue(), name=name)
    operations.put_file(by, claimed.id, claimed.lease, name=name, content=content)


def stays(page: Page) -> Callable[[], bool]:
    """Mark the document now; the answer says whether it is still the same one, never reloaded."""
    page.evaluate("window.stillHere = true")
    return lambda: bool(page.evaluate("window.stillHere === true"))


@contextmanager
def worker_process(url: str, key: str, log: Path, *options: str) -> Iterator[None]:
    """A real worker, as a person starts it."""
    command = [sys.executable, "-m", "jobfarm_worker", "--url", url, "--key", key, *options]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        try:
            yield
        finally:
            process.terminate()
            process.wait(timeout=30)
