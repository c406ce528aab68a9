"""What a worker hands in never runs as a page of ours, by whichever address it is fetched."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.test import Client
from pytest_django import Settings

from jobs import http, operations
from jobs.models import Job, ResultFile
from tests import farm

pytestmark = pytest.mark.django_db
SCRIPT = b"<html><script>alert(document.domain)</script></html>"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'
FILES = {
    "page.html": SCRIPT, "page.htm": SCRIPT, "page.xhtml": SCRIPT, "page.xml": SCRIPT, "page.HTML": SCRIPT,
    "picture.svg": SVG, "picture.svgz": SVG, "script.js": b"alert(1)", "script.mjs": b"alert(1)", "style.css": b"*{}",
    "paper.pdf": b"%PDF-1.7", "flash.swf": b"FWS", "page.png.html": SCRIPT, "page": SCRIPT, "page.mhtml": SCRIPT,
    "really-a-page.png": SCRIPT, "really-a-page.jpg": SCRIPT, "really-a-page.txt": SCRIPT, "Really.GIF": SCRIPT,
}  # fmt: skip
SHOWN = {".png": "image/png", ".jpg": "image/jpeg", ".gif": "image/gif", ".txt": "text/plain; charset=utf-8"}


@pytest.fixture
def job(settings: Settings, tmp_path: Path) -> Job:
    """A job of Ada's whose worker handed in all of them."""
    settings.MEDIA_ROOT = tmp_path
    operations.sync()
    job = operations.submit("chat", {}, owner=farm.user("ada"))
    worker = farm.worker("w1", "chat")
    lease = farm.claim_one(worker).lease
    for name, content in FILES.items():
        operations.put_file(worker, job.pk, lease, name=name, content=ContentFile(content, name=name))
    return job


def _addresses(job: Job, name: str) -> Iterator[str]:
    """All by which a file is fetched."""
    token = operations.share(job.pk, by=User.objects.get(username="ada")).token
    stored = ResultFile.objects.get(job=job, name=name)
    yield f"/jobs/{job.pk}/files/{name}"
    yield f"/api/v1/jobs/{job.pk}/files/{name}"
    yield f"/jobs/shared/{token}/files/{name}"
    yield http.signed_path(stored)


def test_a_file_of_a_worker_never_runs_here(job: Job, client: Client) -> None:
    client.force_login(User.objects.get(username="ada"))
    for name, content in FILES.items():
        kind = SHOWN.get(Path(name).suffix.lower(), "application/octet-stream")
        manner = "inline" if kind != "application/octet-stream" else "attachment"
        for path in _addresses(job, name):
            answer = client.get(path)
            headers = {field: answer.headers[field] for field in ("Content-Type", "Content-Disposition")}
            assert headers == {"Content-Type": kind, "Content-Disposition": f'{manner}; filename="{name}"'}, path
            assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox", path
            assert answer.headers["X-Content-Type-Options"] == "nosniff", path
            assert b"".join(answer.streaming_content) == content  # type: ignore[attr-defined]  # streamed


def test_the_output_of_a_worker_is_plain_text(job: Job, client: Client) -> None:
    client.force_login(User.objects.get(username="ada"))
    answer = client.get(f"/jobs/{job.pk}/output/1")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
