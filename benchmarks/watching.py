"""What a list that somebody watches costs their browser while 200 jobs a second run.

    .venv/bin/python -m benchmarks.watching                # one minute, on a database of its own, dropped afterwards
    .venv/bin/python -m benchmarks.watching --minutes 10
    .venv/bin/python -m benchmarks.watching --in-flight 3000   # frames of the list and of the overview

Opens /jobs/ in headless Chromium, submits, claims and finishes RATE jobs a second, and prints every few seconds what
came over the socket, how often the page changed and was laid out anew, and what memory its process holds after a
collection of garbage. In the end the page has to show how the newest job ended. Exit code 1 if it does not, if the page
was changed more than a few times a second, or if memory has grown.

With --in-flight so many jobs stay in progress beside that, spread over HOLDERS workers, which report progress. Then the
list and the overview are watched, one after the other for so many minutes, and what counts is how long their frames
take, from what called for them to what is drawn: exit code 1 if one takes more than LONGEST_FRAME_MS of processor time
of the page's main thread, which is how long it takes where nothing else runs. By the clock it is longer here: submits,
claims, the server, its database and the browser share this machine.
"""

import argparse
import itertools
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from django.contrib.auth import get_user_model
from playwright.sync_api import Browser, CDPSession, Page, expect, sync_playwright

from benchmarks.options import SHARE, scaled_s
from benchmarks.own import database, logged_in
from jobs import operations as jobs
from jobs.models import Job, Worker
from postgres import connections
from tests.browser.chromium import CHROMIUM
from tests.servers import Server, serve

if TYPE_CHECKING:
    from django.contrib.auth.models import User

os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # Playwright's loop runs in this thread

RATE: Final = int(os.environ.get("BENCH_RATE", "200"))  # jobs a second
AT_ONCE: Final = 10  # jobs in one submit, one claim and one finish
LOOK_EVERY_S: Final = scaled_s(5.0)
MOST_CHANGES: Final = 4.0  # a second: more is a flicker, and work for nothing
MOST_GROWTH: Final = 1.15  # of the last third's median over the first third's, after the first look
HOLDERS: Final = 30  # workers that share the jobs in flight
BEATS: Final = 5  # of jobs in flight, at each submit: all report every half minute at the usual pace
LONGEST_FRAME_MS: Final = 100.0
TRACED: Final = "toplevel,devtools.timeline"
TASK: Final = "ThreadControllerImpl::RunTask"  # as the trace names a turn of a thread
PARTS: Final = {
    "script": ("FunctionCall", "ParseHTML"),
    "style": ("UpdateLayoutTree",),
    "layout": ("Layout",),
    "paint": ("PrePaint", "Paint"),
}
FRAMED: Final = {"list": "/jobs/", "overview": "/"}
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
    .observe(document.querySelector("[data-live=jobs]") ?? document.querySelector("main"), {
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """The frames of a page, in milliseconds: by the clock, and of processor time of its main thread; of that what went
    to each of PARTS, in all."""

    clock: list[float]
    busy: list[float]
    parts: dict[str, float]
    kb_per_s: float
    nodes: int


Flight: TypeAlias = tuple[Worker, jobs.ClaimedJob]  # who holds a job that stays in progress, and its lease


class Work(threading.Thread):
    """RATE jobs a second, each submitted, claimed and finished, until it is stopped; `done` counts them."""

    def __init__(self, worker: Worker, owner: "User", flights: Sequence[Flight] = ()) -> None:
        super().__init__(daemon=True)
        self.done = 0
        self._worker, self._owner = worker, owner
        self._flights = itertools.cycle(flights)
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
        jobs.finish(self._worker, [jobs.Finished(job_id=job.id, lease=job.lease, outcome="success") for job in claimed])
        self.done += len(claimed)
        for holder, claim in itertools.islice(self._flights, BEATS):
            jobs.heartbeat(holder, claim.id, claim.lease, progress=self.done % 1000 / 1000, detail="Working")


class Watcher:
    """The page with the list, and what its browser says about it."""

    def __init__(self, browser: Browser, server: Server, person: "User", *, path: str = "/jobs/") -> None:
        context = browser.new_context(base_url=server.url)
        context.add_cookies([{"name": "sessionid", "value": logged_in(person), "url": server.url}])
        context.add_init_script(COUNTERS)
        self.page: Page = context.new_page()
        self._page_session: CDPSession = context.new_cdp_session(self.page)
        self._browser_session: CDPSession = browser.new_browser_cdp_session()
        self._page_session.send("Performance.enable")
        self.page.goto(path)
        self.page.wait_for_selector("html[data-live=on]", state="attached")
        self._opened = time.monotonic()

    def look(self, work: Work) -> Look:
        """How it stands."""
        self._page_session.send("HeapProfiler.collectGarbage")
        metrics = {each["name"]: each["value"] for each in self._page_session.send("Performance.getMetrics")["metrics"]}
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--in-flight", type=int, default=0)
    options = parser.parse_args()
    for_s = scaled_s(60 * options.minutes, least_s=2)
    with database(), serve() as server, _browser() as browser, connections.released():
        if options.in_flight:
            return _judged_frames(_framed(browser, server, in_flight=options.in_flight, for_s=for_s))
        return _judged(*_watched(browser, server, for_s=for_s))


def _watched(browser: Browser, server: Server, *, for_s: float) -> tuple[list[Look], bool]:
    """What was seen, and whether the page told the truth in the end."""
    jobs.create_kind(jobs.Kind(name="tick"))
    boss = get_user_model().objects.create_superuser("boss")
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


def _framed(browser: Browser, server: Server, *, in_flight: int, for_s: float) -> dict[str, Frames]:
    """How long the frames of each page of FRAMED were while so many jobs were in progress."""
    jobs.create_kind(jobs.Kind(name="tick"))
    boss = get_user_model().objects.create_superuser("boss")
    flights = _flights(boss, in_flight)
    worker, _ = jobs.create_worker("ticker", queues=["tick"])
    work = Work(worker, boss, flights)
    work.start()
    frames = {name: _frames(browser, server, boss, path=path, for_s=for_s) for name, path in FRAMED.items()}
    work.stop()
    return frames


def _flights(owner: "User", number: int) -> list[Flight]:
    """So many jobs in progress, held by HOLDERS workers."""
    jobs.create_kind(jobs.Kind(name="long"))
    flights: list[Flight] = []
    for n in range(HOLDERS):
        share = number // HOLDERS + (n < number % HOLDERS)
        jobs.submit_many([jobs.NewJob(kind="long", payload={"n": n}, owner=owner) for _ in range(share)])
        holder, _ = jobs.create_worker(f"holder {n}", queues=["long"])
        flights += [(holder, claim) for claim in jobs.claim(holder, limit=share)]
    return flights


def _frames(browser: Browser, server: Server, person: "User", *, path: str, for_s: float) -> Frames:
    """Watch one page; its loading does not count."""
    page = Watcher(browser, server, person, path=path).page
    page.wait_for_timeout(LOOK_EVERY_S * 1000)
    before = page.evaluate("counted.bytes")
    with _traced(browser, page) as events:
        page.wait_for_timeout(for_s * 1000)
    received = page.evaluate("counted.bytes") - before
    nodes = page.evaluate("document.querySelectorAll('*').length")
    page.context.close()
    return _frames_of(events, kb_per_s=received / 1000 / for_s, nodes=nodes)


@contextmanager
def _traced(browser: Browser, page: Page) -> Iterator[list[dict[str, Any]]]:
    """What the browser's threads did meanwhile; the events are there in the end."""
    session, events = browser.new_browser_cdp_session(), list[dict[str, Any]]()
    is_complete = threading.Event()
    session.on("Tracing.dataCollected", lambda batch: events.extend(batch["value"]))
    session.on("Tracing.tracingComplete", lambda _: is_complete.set())
    session.send("Tracing.start", {"categories": TRACED, "transferMode": "ReportEvents"})
    yield events
    session.send("Tracing.end")
    while not is_complete.is_set():
        page.wait_for_timeout(100)
    session.detach()


def _frames_of(events: list[dict[str, Any]], *, kb_per_s: float, nodes: int) -> Frames:
    spans = _spans([event for event in events if event["name"] == "AnimationFrame"])
    threads = {(event["pid"], event["tid"]) for event in events if event["name"] == "UpdateLayoutTree"}
    done = [event for event in events if "tdur" in event and (event["pid"], event["tid"]) in threads]
    tasks = [event for event in done if event["name"] == TASK]
    return Frames(
        clock=[(end - begin) / 1000 for begin, end in spans],
        busy=[sum(task["tdur"] for task in tasks if begin <= task["ts"] < end) / 1000 for begin, end in spans],
        parts={
            part: sum(event["tdur"] for event in done if event["name"] in names) / 1000 for part, names in PARTS.items()
        },
        kb_per_s=kb_per_s,
        nodes=nodes,
    )


def _spans(events: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """From when to when each frame was, in microseconds."""
    begins: dict[str, int] = {}
    spans: list[tuple[int, int]] = []
    for event in sorted(events, key=lambda event: event["ts"]):
        frame = f"{event['pid']} {event.get('id2', event.get('id'))}"
        if event["ph"] == "b":
            begins[frame] = event["ts"]
        elif event["ph"] == "e" and frame in begins:
            spans.append((begins.pop(frame), event["ts"]))
    return spans


def _judged_frames(frames: dict[str, Frames]) -> int:
    print(f"\n{'':9} frames   median   longest (by the clock)  KB/s  nodes   ms of the main thread")
    for name, seen in frames.items():
        parts = ", ".join(f"{part} {spent_ms:.0f}" for part, spent_ms in seen.parts.items())
        print(
            f"{name:9} {len(seen.busy):6d} {statistics.median(seen.busy):8.1f} {max(seen.busy):9.1f}"
            f" {f'({max(seen.clock):.0f})':15} {seen.kb_per_s:5.0f} {seen.nodes:6d}   {parts}"
        )
    longest = max(max(seen.busy) for seen in frames.values())
    print(f"the longest frame takes {longest:.0f} ms of its thread (goal: {LONGEST_FRAME_MS:.0f} at most)")
    return 0 if SHARE < 1 or longest <= LONGEST_FRAME_MS else 1


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
    print(f"memory, last third to first: heap x{heap:.2f}, process x{process:.2f} (goal: x{MOST_GROWTH:.2f} at most)")
    print(f"the newest job's end {'is' if is_true else 'IS NOT'} shown")
    is_calm = changes <= MOST_CHANGES and max(heap, process) <= MOST_GROWTH
    return 0 if is_true and (SHARE < 1 or is_calm) else 1


def _growth(sizes: list[int]) -> float:
    """How the median of the last third stands to that of the first. The first look is left out: caches were empty."""
    warm = sizes[1:]
    third = max(1, len(warm) // 3)
    return statistics.median(warm[-third:]) / statistics.median(warm[:third])


def _private_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("Private_Clean", "Private_Dirty")))


@contextmanager
def _browser() -> Iterator[Browser]:
    arguments: list[Any] = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--js-flags=--expose-gc"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


if __name__ == "__main__":
    sys.exit(main())
