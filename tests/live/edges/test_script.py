"""live.js in a real browser, against a server that the test plays itself."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Route, WebSocketRoute, async_playwright

from tests.browser.chromium import ARGUMENTS, CHROMIUM
from tests.live.integration.support import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

SCRIPT = Path(__file__).resolve().parents[3] / "live" / "static" / "live" / "live.js"
POLICY = "default-src 'self'; connect-src 'self' ws:"  # no inline script, no eval, no inline style
PAGE = """<!doctype html><html lang="en-GB"><head><title>t</title><script src="/live.js" defer></script>
</head><body>{body}</body></html>"""
STATE = """<div id="part" data-live="job" data-live-version="v0"
 data-live-args='{"job_id": 7}'>{inner}</div>"""
STREAM = """<pre id="part" data-live="output" data-live-stream="" data-live-cursor="c0" data-live-ticket="t"
 data-live-args='{"job_id": 7}'>
start </pre>"""


class Farm:
    """The other end: what the page said, and what to say to it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.sockets: list[WebSocketRoute] = []
        self.received: list[dict[str, Any]] = []
        self.answers_pings = True
        self.problems: list[str] = []
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", lambda message: self.problems.append(message.text) if message.type == "error" else None)

    async def show(self, body: str) -> None:
        """Open a page with this body, and wait until it has said what it watches."""

        async def serve(route: Route) -> None:
            if route.request.url.endswith("/live.js"):
                await route.fulfill(body=SCRIPT.read_text(), content_type="text/javascript")
            else:
                headers = {"content-security-policy": POLICY}
                await route.fulfill(body=PAGE.format(body=body), content_type="text/html", headers=headers)

        await self.page.route("**/*", serve)
        await self.page.route_web_socket("**/ws/live/", self._connected)
        await self.page.goto("http://farm.test/")

    async def watched(self, count: int = 1) -> list[dict[str, Any]]:
        """The wishes of the page, once there are so many."""
        await eventually(lambda: len(self.watch_requests()) >= count)
        return self.watch_requests()

    def watch_requests(self) -> list[dict[str, Any]]:
        """All that the page wished to watch up to now."""
        return [request for message in self.received for request in message.get("watch", [])]

    def says(self, **message: Any) -> None:
        """Send to the page's newest socket."""
        self.sockets[-1].send(json.dumps(message))

    async def becomes(self, expression: str, value: Any) -> None:
        """Wait until an expression in the page has this value."""
        await self.page.wait_for_function(
            f"wanted => JSON.stringify({expression}) === JSON.stringify(wanted)", arg=value, timeout=15_000
        )

    def _connected(self, socket: WebSocketRoute) -> None:
        self.sockets.append(socket)
        socket.on_message(lambda text: self._receive(socket, json.loads(text)))

    def _receive(self, socket: WebSocketRoute, message: dict[str, Any]) -> None:
        self.received.append(message)
        if "ping" in message and self.answers_pings:
            socket.send('{"pong":true}')


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def browser() -> AsyncIterator[Browser]:
    """One browser for all of these tests."""
    async with async_playwright() as playwright:
        launched = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        await launched.close()


@pytest_asyncio.fixture(loop_scope="module")
async def farm(browser: Browser) -> AsyncIterator[Farm]:
    """An empty page of somebody in Tokyo who reads English."""
    page = await browser.new_page(timezone_id="Asia/Tokyo", locale="en-GB")
    yield (playing := Farm(page))
    await page.context.close()
    assert playing.problems == []


HTML = "document.querySelector('#part').innerHTML"


class TestStates:
    async def test_are_watched_with_their_version_and_swapped(self, farm: Farm) -> None:
        await farm.show(STATE.replace("{inner}", "<b>old</b>"))
        [request] = await farm.watched()
        assert request == {"id": request["id"], "name": "job", "args": {"job_id": 7}, "version": "v0"}
        assert farm.received[0]["language"] == "en-GB"
        await farm.page.evaluate("addEventListener('live:updated', e => { window.received = e.detail.version })")
        farm.says(state=request["id"], version="v1", html="<b>new</b> &amp; more")
        await farm.becomes(HTML, "<b>new</b> &amp; more")
        assert await farm.page.evaluate("[window.received, part.dataset.liveVersion]") == ["v1", "v1"]

    async def test_disturb_nobody_who_types_selects_scrolls_or_opened_something(self, farm: Farm) -> None:
        inner = (
            "<p>{0}</p><input id=i><details><summary>s</summary><p>d</p></details>"
            "<ul id=list tabindex=0 class=tall>{1}</ul>"
        )
        items = "".join(f"<li>{n}</li>" for n in range(200))
        await farm.show(STATE.replace("{inner}", inner.format("old", items)))
        [request] = await farm.watched()
        await farm.page.evaluate(
            "i.focus(); i.value = 'typing'; i.setSelectionRange(2, 4);"
            "document.querySelector('details').open = true;"
            "list.style.height = '50px'; list.style.overflow = 'auto'; list.scrollTop = 400; window.kept = i"
        )
        farm.says(state=request["id"], version="v1", html=inner.format("new", items + "<li>more</li>"))
        await farm.becomes("document.querySelector('#part p').textContent", "new")
        assert await farm.page.evaluate(
            "[document.activeElement === window.kept, i.value, i.selectionStart, i.selectionEnd,"
            " document.querySelector('details').open, list.children.length]"
        ) == [True, "typing", 2, 4, True, 201]

    async def test_keep_the_nodes_of_keyed_rows_in_any_order(self, farm: Farm) -> None:
        def rows(*names: str) -> str:
            return "".join(f'<p data-key="{name}">{name}</p>' for name in names)

        await farm.show(STATE.replace("{inner}", rows("a", "b", "c", "d")))
        [request] = await farm.watched()
        await farm.page.evaluate("window.was = [...part.children]")
        farm.says(state=request["id"], version="v1", html=rows("d", "x", "b", "a"))
        await farm.becomes("part.textContent", "dxba")
        kept = "[part.children[0] === was[3], part.children[2] === was[1], part.children[3] === was[0]]"
        assert await farm.page.evaluate(kept) == [True, True, True]

    async def test_bring_data_to_a_script_of_the_page(self, farm: Farm) -> None:
        await farm.show(STATE.replace("{inner}", "").replace("v0", ""))
        [request] = await farm.watched()
        await farm.page.evaluate("addEventListener('live:updated', e => { window.received = e.detail.data })")
        farm.says(state=request["id"], version="v1", data={"queued": 3})
        await farm.becomes("window.received", {"queued": 3})

    async def test_are_emptied_when_they_are_gone(self, farm: Farm) -> None:
        await farm.show(STATE.replace("{inner}", "<b>secret</b>"))
        [request] = await farm.watched()
        farm.says(gone=request["id"])
        await farm.becomes(HTML, "")
        assert await farm.page.evaluate("'liveGone' in part.dataset")
        await farm.sockets[-1].close()
        await farm.becomes("document.documentElement.dataset.live", "on")
        assert len(farm.watch_requests()) == 1

    async def test_that_come_and_go_later_are_noticed(self, farm: Farm) -> None:
        await farm.show("<main></main>")
        await farm.becomes("document.documentElement.dataset.live === undefined", True)
        part = STATE.replace("{inner}", "old")
        await farm.page.evaluate("html => { document.querySelector('main').innerHTML = html }", part)
        [first] = await farm.watched(1)
        await farm.page.evaluate("html => { document.querySelector('main').innerHTML = html }", part)
        [_, second] = await farm.watched(2)
        await eventually(lambda: {"unwatch": [first["id"]]} in farm.received)
        farm.says(state=second["id"], version="v1", html="new")
        await farm.becomes(HTML, "new")
        assert len(farm.sockets) == 1


class TestStreams:
    async def test_are_appended_as_text(self, farm: Farm) -> None:
        await farm.show(STREAM)
        [request] = await farm.watched()
        assert (request["cursor"], request["ticket"]) == ("c0", "t")
        markup = {"cursor": "c1", "data": "<script>alert(1)</script>"}
        items = [markup, {"cursor": "c2", "data": {"text": " & b"}}]
        farm.says(append=request["id"], cursor="c2", items=items)
        await farm.becomes("part.textContent", "start <script>alert(1)</script> & b")
        assert await farm.page.evaluate("[part.children.length, part.dataset.liveCursor]") == [0, "c2"]

    async def test_can_be_shown_by_a_script_of_the_page(self, farm: Farm) -> None:
        await farm.show(STREAM)
        [request] = await farm.watched()
        await farm.page.evaluate(
            "addEventListener('live:append', e => { e.preventDefault(); window.received = e.detail.items })"
        )
        farm.says(append=request["id"], cursor="c1", items=[{"cursor": "c1", "data": {"who": "ada"}}])
        await farm.becomes("window.received", [{"cursor": "c1", "data": {"who": "ada"}}])
        assert await farm.page.evaluate("part.textContent") == "start "

    async def test_follow_the_end_unless_the_reader_went_up(self, farm: Farm) -> None:
        await farm.show(STREAM)
        [request] = await farm.watched()
        await farm.page.evaluate("part.style.height = '60px'; part.style.overflow = 'auto'")
        at_end = "part.scrollHeight - part.scrollTop - part.clientHeight < 2"
        farm.says(append=request["id"], cursor="c1", items=[{"cursor": "c1", "data": "line\n" * 100}])
        await farm.becomes(at_end, True)
        await farm.page.evaluate("part.scrollTop = 100")
        farm.says(append=request["id"], cursor="c2", items=[{"cursor": "c2", "data": "line\n" * 100}])
        await farm.becomes("part.dataset.liveCursor", "c2")
        assert await farm.page.evaluate("part.scrollTop") == 100


class TestTheSocket:
    async def test_comes_back_and_says_where_the_page_is(self, farm: Farm) -> None:
        await farm.show(STATE.replace("{inner}", "old") + STREAM.replace('id="part"', ""))
        state, stream = await farm.watched(2)
        farm.says(state=state["id"], version="v1", html="new")
        farm.says(append=stream["id"], cursor="c1", items=[{"cursor": "c1", "data": "more"}])
        await farm.becomes(HTML, "new")
        await farm.sockets[0].close(code=1012)
        await farm.becomes("document.documentElement.dataset.live", "off")
        again = (await farm.watched(4))[2:]
        assert [(request.get("version"), request.get("cursor")) for request in again] == [("v1", None), (None, "c1")]
        await farm.becomes("document.documentElement.dataset.live", "on")

    async def test_stays_away_when_the_person_is_logged_out(self, farm: Farm) -> None:
        await farm.show(STATE.replace("{inner}", "old"))
        await farm.watched()
        await farm.page.evaluate("document.addEventListener('live:ended', () => { window.received = 1 })")
        await farm.sockets[0].close(code=4401)
        await farm.becomes("[document.documentElement.dataset.live, window.received]", ["ended", 1])
        await farm.page.evaluate("dispatchEvent(new Event('online'))")
        assert len(farm.sockets) == 1

    async def test_comes_back_later_when_the_page_asked_too_fast(self, farm: Farm) -> None:
        """It would ask for the same again, and be closed again."""
        await farm.page.clock.install()
        await farm.show(STATE.replace("{inner}", "old"))
        await farm.watched()
        await farm.sockets[0].close(code=4429)
        await farm.becomes("document.documentElement.dataset.live", "off")
        await farm.page.clock.run_for(14_000)
        assert len(farm.sockets) == 1
        await farm.page.clock.run_for(17_000)
        await farm.watched(2)

    async def test_is_not_opened_by_a_page_without_live_parts(self, farm: Farm) -> None:
        await farm.show("<p>static</p>")
        await farm.becomes("window.jobfarmLive", True)
        assert farm.sockets == []

    async def test_is_given_up_when_nobody_answers_at_the_other_end(self, farm: Farm) -> None:
        """A laptop that slept has a socket that looks open and is dead."""
        await farm.page.clock.install()
        farm.answers_pings = False
        await farm.show(STATE.replace("{inner}", "old"))
        await farm.watched()
        await farm.page.clock.run_for(26_000)
        await eventually(lambda: {"ping": True} in farm.received)
        await farm.page.clock.run_for(10_500)
        await farm.page.clock.run_for(10_000)
        await eventually(lambda: len(farm.sockets) == 2)


BOTH_ZONES = "3 Jan 2026, 05:04:05 GMT+9, 2026-01-02 20:04:05 UTC"


class TestTimes:
    async def test_are_shown_in_the_readers_zone(self, farm: Farm) -> None:
        await farm.show('<time datetime="2026-01-02T20:04:05+00:00">raw</time>')
        await farm.becomes("document.querySelector('time').textContent", "3 Jan 2026, 05:04:05")

    async def test_are_relative_where_asked_and_grow(self, farm: Farm) -> None:
        await farm.page.clock.install(time="2026-01-02T20:05:05Z")
        await farm.show('<time datetime="2026-01-02T20:04:05Z" data-relative>raw</time>')
        await farm.becomes("document.querySelector('time').textContent", "1 minute ago")
        assert await farm.page.evaluate("document.querySelector('time').title") == BOTH_ZONES
        await farm.page.clock.run_for(120_000)
        await farm.becomes("document.querySelector('time').textContent", "3 minutes ago")

    async def test_far_ahead_are_a_date(self, farm: Farm) -> None:
        await farm.page.clock.install(time="2026-01-02T20:04:05Z")
        times = (
            f'<time datetime="{at}" data-relative>raw</time>' for at in ("2098-02-05T20:04:05Z", "2026-01-12T21:04:05Z")
        )
        await farm.show("".join(times))
        await farm.becomes(
            "[...document.querySelectorAll('time')].map((time) => time.textContent).join(' | ')",
            "6 Feb 2098, 05:04:05 | in 10 days",
        )

    async def test_are_the_time_of_day_where_asked_while_it_is_that_day(self, farm: Farm) -> None:
        await farm.page.clock.install(time="2026-01-02T20:04:00Z")
        today, later = (
            f'<time datetime="{at}" data-clock>raw</time>' for at in ("2026-01-02T20:04:05Z", "2026-01-03T20:04:05Z")
        )
        await farm.show(today + later)
        await farm.becomes(
            "[...document.querySelectorAll('time')].map((time) => time.textContent).join(' | ')",
            "05:04:05 | 4 Jan 2026, 05:04:05",
        )
        assert await farm.page.evaluate("document.querySelector('time').title") == BOTH_ZONES

    async def test_are_shown_in_what_was_swapped_in(self, farm: Farm) -> None:
        await farm.show(STATE.replace("{inner}", "old"))
        [request] = await farm.watched()
        html = '<time datetime="2026-01-02T20:04:05Z">raw</time><time datetime="nonsense">raw</time>'
        farm.says(state=request["id"], version="v1", html=html)
        await farm.becomes("part.textContent", "3 Jan 2026, 05:04:05raw")
