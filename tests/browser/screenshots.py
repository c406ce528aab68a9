"""The pictures in docs/screenshots, taken anew: `make screenshots`.

Not collected by `make test`: it changes files of the repository. It starts a whole farm with its demonstrator on a
database of its own, waits for a picture that is being painted, and takes the farm as it then is.
"""

import contextlib
import io
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from PIL import Image
from playwright.sync_api import Browser, Page, expect
from pytest_django import Settings

from jobfarm_worker.handlers.image_demo import Picture
from jobs import operations
from scheduling.models import Cluster
from tests import farm, rows
from tests.browser import seeds
from tests.browser.conftest import _place, _session
from tests.ports import free_port
from tests.rows import Sql

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / "docs" / "screenshots"
MOST_BYTES = 200_000
COLOURS = 256
DESKTOP, TALL, PHONE = ({"width": 1200, "height": 800}, {"width": 1200, "height": 1060}, {"width": 390, "height": 780})
UP_S = 60
HALF_PAINTED = """bar => new Promise(done => {
    const look = () => (bar.value > 0.55 ? done() : requestAnimationFrame(look));
    look();
})"""
# An evening on a farm: more in its middle, a few that failed, waits and runs that differ.
_AT = "(now() - interval '59 min' + interval '58 min' * (n / 600.0 + 0.06 * sin(n / 40.0)))"
_OF_QUEUE = Sql("(ARRAY['image', 'chat', 'transcribe'])[1 + (n / 2) %% 3]")


@pytest.fixture
def seeded(transactional_db: None, settings: Settings, tmp_path: Path) -> seeds.Farm:
    """A farm with an hour behind it."""
    settings.MEDIA_ROOT = tmp_path / "files"
    operations.sync()
    rows.fill(
        600, status=Sql("CASE WHEN n %% 23 = 0 THEN 'failed' ELSE 'success' END"), kind=_OF_QUEUE, queue=_OF_QUEUE,
        created_at=Sql(_AT), run_at=Sql(_AT), claimed_at=Sql(f"{_AT} + interval '1 s' * (1 + n %% 7)"),
        ended_at=Sql(f"{_AT} + interval '1 s' * (4 + n %% 7 + (n * 31) %% 17)"), fence=1,
    )  # fmt: skip
    made = seeds.seed(paint=_painting)
    operations.roll_up()
    return made


@pytest.fixture
def url(seeded: seeds.Farm, tmp_path: Path) -> Iterator[str]:
    """The address of that farm, once all of it runs."""
    with _running(tmp_path) as address:
        yield address


def test_take_the_pictures(browser: Browser, url: str, seeded: seeds.Farm) -> None:
    desktop = _page(browser, url, by=seeded.boss, viewport=DESKTOP)
    expect(desktop.locator("html[data-live=on]")).to_be_attached(timeout=UP_S * 1000)
    expect(desktop.locator("main")).to_contain_text("demonstrator", timeout=UP_S * 1000)
    job = operations.submit("image", {"prompt": seeds.PROMPTS[0]}, owner=seeded.boss)
    phone = _page(browser, url, by=seeded.boss, viewport=PHONE, color_scheme="dark")
    for page in (desktop, phone):
        page.goto(f"/jobs/{job.pk}/")
    desktop.locator("progress").evaluate(HALF_PAINTED)
    _keep(desktop, "job")
    _keep(phone, "phone")
    for name, path in (
        ("overview", "/"), ("jobs", "/jobs/"), ("inbox", "/inbox/"), ("game", "/game/gallery/"),
        ("chat", f"/chat/{seeded.group.pk}/"),
    ):  # fmt: skip
        desktop.set_viewport_size(TALL if name == "overview" else DESKTOP)  # type: ignore[arg-type]  # its type has no name
        desktop.goto(path)
        expect(desktop.locator("html[data-live=on]")).to_be_attached()
        _keep(desktop, name)


@contextlib.contextmanager
def _running(folder: Path) -> Iterator[str]:
    port = str(free_port())
    command = [sys.executable, "manage.py", "farm", "--with-worker"]
    given = {**os.environ, **_place(folder), "PORT": port}
    given.pop("JOBFARM_TEST_DATABASE", None)  # it would keep the crons still
    process = subprocess.Popen(command, cwd=ROOT, env=given, stdin=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        clusters = Cluster.objects.filter(role__in=("mutations", "actions"), last_seen_at__isnull=False, ended_at=None)
        farm.until(lambda: _answers(url) and clusters.count() == 2, within_s=UP_S, what="the farm")
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def _page(browser: Browser, url: str, *, by: User, **options: Any) -> Page:
    context = browser.new_context(base_url=url, device_scale_factor=1, locale="en-GB", **options)
    context.add_cookies([{"name": "sessionid", "value": _session(by), "url": url}])
    page = context.new_page()
    page.goto("/")
    return page


def _answers(url: str) -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health/live", timeout=2) as answer:
        return bool(answer.status)
    return False


def _keep(page: Page, name: str) -> None:
    """The window as it is, as a small PNG: exact where that is small enough, else in fewer colours."""
    path = SHOTS / f"{name}.png"
    whole = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    whole.save(path, optimize=True)
    if path.stat().st_size > MOST_BYTES:
        whole.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    assert path.stat().st_size < MOST_BYTES, f"{path.name} has {path.stat().st_size} bytes"


def _painting(prompt: str) -> bytes:
    file = io.BytesIO()
    Image.fromarray(Picture(prompt, side=384).band(0, 384)).save(file, "PNG")
    return file.getvalue()
