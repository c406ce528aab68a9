"""What a list that somebody watches costs their browser while 200 jobs a second run.

    .venv/bin/python -m benchmarks.watching                # one minute, on a database of its own, dropped afterwards
    .venv/bin/python -m benchmarks.watching --minutes 10

Opens /jobs/ in headless Chromium, submits, claims and finishes RATE jobs a second, and prints every few seconds what
came over the socket, how often the page changed and was laid out anew, and what memory its process holds after a
collection of garbage. In the end the page has to show how the newest job ended. Exit code 1 if it does not, if the page
was changed more than a few times a second, or if memory has grown.
"""

import argparse
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")
os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # Playwright's loop runs in this thread
django.setup()

from django.contrib.auth.models import User  # noqa: E402 (Django has to be set up first)
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import setup_databases, teardown_databases  # noqa: E402
from playwright.sync_api import Browser, CDPSession, Page, expect, sync_playwright  # noqa: E402

from jobs import operations as jobs  # noqa: E402
from jobs.models import Job, Worker  # noqa: E402
from postgres import connections  # noqa: E402
from tests.servers import Server, serve  # noqa: E402

RATE: Final = int(os.environ.get("BENCH_RATE", "200"))  # jobs a second
AT_ONCE: Final = 10  # jobs in one submit, one claim and one finish
LOOK_EVERY_S: Final = 5.0
MOST_CHANGES: Final = 4.0  # a second: more is a flicker, and work for nothing
MOST_GROWTH: Final = 1.15  # of the last third's median over the first third's, after the first look
MB: Final = 1_000_000
# Counts what comes over the socket, and how often the document is changed: once for each turn of the script engine in
# which any node was.
COUNTERS: Final = """
window.counted = { messages: 0, bytes: 0, changes: 0 };
window.WebSocket = class extends WebSocket {
    constructor(...given) {
        super(...given);
        this.addEventListener("message", ({ data }) => { counted.messages += 1; counted.bytes += data.length; });
    }
};
document.addEventListener("DOMContentLoaded", () => new MutationObserver(() => { counted.changes += 1; })
    .observe(document.querySelector("[data-live=jobs]"), {
        subtree: true, childList: true, characterData: true, attributes: true,
    }));
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What was counted up to a moment since the page was opened; memory in bytes, after a collection of garbage."""

    at_s: float
    jobs: int
    messages: int
    received: int
    changes: int
    layouts: int
    nodes: int
    heap: int
    process: int


class Work(threading.Thread):
    """RATE jobs a second, each submitted, claimed and finished, until it is stopped; `done` counts them."""

    def __init__(self, worker: Worker, owner: User) -> None:
        super().__init__(daemon=True)
        self.done = 0
        self._worker, self._owner = worker, owner
        self._stopped = threading.Event()

    def run(self) -> None:
        """Work at the pace; what could not be done in time is done as soon as possible."""
        began = time.monotonic()
        with connections.released():
            while not self._stopped.wait(max(0.0, began + self.done / RATE - time.monotonic())):
                self._turn()

    def stop(self) -> None:
        """End after the jobs at hand."""
        self._stopped.set()
        self.join()

    def _turn(self) -> None:
        new = [jobs.NewJob(kind="tick", payload={"n": n}, owner=self._owner) for n in range(AT_ONCE)]
        jobs.submit_many(new)
        claimed = jobs.claim(self._worker, limit=AT_ONCE)
        jobs.finish(
            self._worker,
            [jobs.Finished(job_id=job.id, lease=job.lease, outcome="success") for job in claimed],
        )
        self.done += len(claimed)


class Watcher:
    """The page with the list, and what its browser says about it."""

    def __init__(self, browser: Browser, server: Server, person: User) -> None:
        client = Client()
        client.force_login(person)
        context = browser.new_context(base_url=server.url)
        context.add_cookies(
            [{"name": "sessionid", "value": client.cookies["sessionid"].value, "url": server.url}]
        )
        context.add_init_script(COUNTERS)
        self.page: Page = context.new_page()
        self._page_session: CDPSession = context.new_cdp_session(self.page)
        self._browser_session: CDPSession = browser.new_browser_cdp_session()
        self._page_session.send("Performance.enable")
        self.page.goto("/jobs/")
        self.page.wait_for_selector("html[data-live=on]", state="attached")
        self._opened = time.monotonic()

    def look(self, work: Work) -> Look:
        """How it stands."""
        self._page_session.send("HeapProfiler.collectGarbage")
        metrics = {
            each["name"]: each["value"]
            for each in self._page_session.send("Performance.getMetrics")["metrics"]
        }
        counted = self.page.evaluate("counted")
        return Look(
            at_s=time.monotonic() - self._opened, jobs=work.done, messages=counted["messages"],
            received=counted["bytes"], changes=counted["changes"], layouts=int(metrics["LayoutCount"]),
            nodes=int(metrics["Nodes"]), heap=int(metrics["JSHeapUsedSize"]), process=self._process_bytes(),
        )  # fmt: skip

    def _process_bytes(self) -> int:
        """What the processes that draw pages hold for themselves: of this browser, one page's."""
        listed = self._browser_session.send("SystemInfo.getProcessInfo")["processInfo"]
        return sum(_private_bytes(each["id"]) for each in listed if each["type"] == "renderer")


def main() -> int:
    """Watch, print a line now and then, and judge."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=1.0)
    minutes = parser.parse_args().minutes
    connection.settings_dict["TEST"]["NAME"] = f"test_jobfarm_{os.getpid()}"
    databases = setup_databases(verbosity=0, interactive=False)
    try:
        with serve() as server, _browser() as browser, connections.released():
            return _judged(*_watched(browser, server, for_s=60 * minutes))
    finally:
        teardown_databases(databases, verbosity=0)


def _watched(browser: Browser, server: Server, *, for_s: float) -> tuple[list[Look], bool]:
    """What was seen, and whether the page told the truth in the end."""
    jobs.create_kind(jobs.Kind(name="tick"))
    boss = User.objects.create_superuser("boss")
    worker, _ = jobs.create_worker("ticker", queues=["tick"])
    watcher, work = Watcher(browser, server, boss), Work(worker, boss)
    work.start()
    looks = [watcher.look(work)]
    print("    s   jobs/s  messages/s   KB/s  changes/s  layouts/s   nodes  heap MB  process MB")
    while looks[-1].at_s < for_s:
        watcher.page.wait_for_timeout(LOOK_EVERY_S * 1000)
        looks.append(watcher.look(work))
        _print(looks[-2], looks[-1])
    work.stop()
    return looks, _is_true(watcher.page)


def _is_true(page: Page) -> bool:
    newest = Job.objects.latest("pk")
    try:
        expect(page.locator(f"[data-key=j{newest.pk}]")).to_contain_text("success", timeout=20_000)
    except AssertionError:
        return False
    return True


def _print(before: Look, now: Look) -> None:
    seconds = now.at_s - before.at_s
    print(
        f"{now.at_s:5.0f} {(now.jobs - before.jobs) / seconds:8.0f} {(now.messages - before.messages) / seconds:11.2f}"
        f" {(now.received - before.received) / 1000 / seconds:6.0f} {(now.changes - before.changes) / seconds:10.2f}"
        f" {(now.layouts - before.layouts) / seconds:10.2f} {now.nodes:7d}"
        f" {now.heap / MB:8.1f} {now.process / MB:11.1f}",
        flush=True,
    )


def _judged(looks: list[Look], is_true: bool) -> int:
    first, last = looks[0], looks[-1]
    seconds = last.at_s - first.at_s
    changes = (last.changes - first.changes) / seconds
    heap, process = (_growth([getattr(look, name) for look in looks]) for name in ("heap", "process"))
    print(f"\n{last.jobs} jobs in {seconds:.0f} s ({last.jobs / seconds:.0f} a second), watched in one list")
    print(f"the page was changed {changes:.2f} times a second (goal: {MOST_CHANGES:.0f} at most)")
    print(
        f"memory, last third to first: heap x{heap:.2f}, process x{process:.2f} (goal: x{MOST_GROWTH:.2f} at most)"
    )
    print(f"the newest job's end {'is' if is_true else 'IS NOT'} shown")
    return 0 if is_true and changes <= MOST_CHANGES and max(heap, process) <= MOST_GROWTH else 1


def _growth(sizes: list[int]) -> float:
    """How the median of the last third stands to that of the first. The first look is left out: caches were empty."""
    warm = sizes[1:]
    third = max(1, len(warm) // 3)
    return statistics.median(warm[-third:]) / statistics.median(warm[:third])


def _private_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(
        int(line.split()[1]) * 1024 for line in lines if line.startswith(("Private_Clean", "Private_Dirty"))
    )


@contextmanager
def _browser() -> Iterator[Browser]:
    arguments: list[Any] = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--js-flags=--expose-gc",
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=arguments)
        yield browser
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
