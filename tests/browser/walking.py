"""Somebody who opens one page after another and looks at each: in a light or a dark theme, at a desk or on a phone."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import cycle
from pathlib import Path
from typing import Final, Literal

from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]  # it ships no types
from django.conf import settings
from django.contrib.auth.models import User
from playwright.sync_api import Browser, ConsoleMessage, Page

from tests import effort
from tests.browser import failing, seeds
from tests.browser.addresses import Address
from tests.browser.conftest import _session
from tests.servers import Server

Theme = Literal["light", "dark"]
DESKTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
# A step from one to the next changes the theme or the width, and each is a change that takes time.
Look = tuple[Theme, dict[str, int]]
LOOKS: Final[tuple[Look, ...]] = (("light", DESKTOP), ("light", PHONE), ("dark", PHONE), ("dark", DESKTOP))
JUDGES = f"{AXE_SCRIPT};{Path(__file__).with_name('judging.js').read_text()}"
# What a browser says of a page that answers as it should: with a fault.
OWN_STATUS = "Failed to load resource: the server responded with a status of"
IN_THIS_LOOK = """async theme => {
    const wider = judge.wider();
    return [...(wider ? [`${wider} pixels wider than the window`] : []), ...(await judge.colours(theme))];
}"""
# unfold asks once, as a page is opened, what the system prefers; from then on its own switch decides.
SWITCH = "theme => window.Alpine && Alpine.$data(document.documentElement).switchTheme(theme)"


def looks() -> Sequence[Look]:
    """Those in which a run sees each page: all before a landing, else the one whose turn it is at this commit. Loading
    a page and finding its barriers is two thirds of the walk, and is done in any case."""
    return effort.turn(LOOKS, of=len(LOOKS))


def faults(browser: Browser, server: Server, seeded: seeds.Farm, *, wanted: Sequence[Address]) -> list[str]:
    """What is wrong with these pages, a line each."""
    pictures = _pictures()
    people = {"boss": seeded.boss, "member": seeded.member, "guest": seeded.guest, "": None}
    found: list[str] = []
    for by, person in people.items():
        mine = [address for address in wanted if address.by == by]
        with closing(_Visitor(browser, server, person)) as visitor:
            for address in mine:
                found += visitor.faults(address, pictures)
    return found


def _pictures() -> Path | None:
    """Where a picture of each page in each look is left, for who asks for them: they took a sixth of the walk, and
    judge nothing."""
    if not os.environ.get("JOBFARM_PICTURES"):
        return None
    folder = Path(settings.JOBFARM_DATA) / "pages"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class _Visitor:
    """Somebody with a browser of their own, and what its console said since it was last asked."""

    def __init__(self, browser: Browser, server: Server, person: User | None) -> None:
        # Colours that fade over would be judged half-way.
        self._context = browser.new_context(base_url=server.url, reduced_motion="reduce")
        if person is not None:
            self._context.add_cookies([{"name": "sessionid", "value": _session(person), "url": server.url}])
        self._context.add_init_script(JUDGES)
        self._page: Page = self._context.new_page()
        self._messages: list[str] = []
        self._looks = cycle((looks(), looks()[::-1]))  # a page begins as the one before it ended
        self._theme: Theme | None = None
        self._page.on("console", self._collect)
        self._page.on("pageerror", lambda error: self._messages.append(str(error)))

    def close(self) -> None:
        """Go away."""
        self._context.close()

    def faults(self, address: Address, pictures: Path | None) -> Iterator[str]:
        """What is wrong with one page, which is loaded once: theme and width change under it, as a visitor turns a
        phone or a system its lamps out."""
        turn = next(self._looks)
        self._put_on(*turn[0])
        status = self._open(address)
        if status != address.status:
            yield f"{address.name}: {status} in place of {address.status}"
        yield from (f"{address.name}: {fault}" for fault in self._page.evaluate("judge.barriers()"))
        for theme, size in turn:
            self._put_on(theme, size)
            name = f"{address.name}-{theme}-{size['width']}"
            if pictures is not None:
                self._page.screenshot(path=pictures / f"{name}.jpeg", type="jpeg", quality=70)
            yield from (f"{name}: {fault}" for fault in self._page.evaluate(IN_THIS_LOOK, theme))
        yield from (f"{address.name}: {message}" for message in self._take_messages(address))

    def _put_on(self, theme: Theme, size: dict[str, int]) -> None:
        if theme != self._theme:
            self._theme = theme
            self._page.emulate_media(color_scheme=theme)
            self._page.evaluate(SWITCH, theme)
        if self._page.viewport_size != size:
            self._page.set_viewport_size(size)  # type: ignore[arg-type]  # its type has no name

    def _open(self, address: Address) -> int | None:
        with failing.bulks(sqlstate=address.fails):
            answer = self._page.goto(address.path)
        if address.forgets:
            self._context.clear_cookies(name=address.forgets)
        if address.press:
            with self._page.expect_navigation() as went:
                self._page.get_by_role("button", name=address.press, exact=True).click()
            answer = went.value
        return answer.status if answer else None

    def _collect(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self._messages.append(message.text)

    def _take_messages(self, address: Address) -> list[str]:
        messages, self._messages = self._messages, []
        return [message for message in messages if not (address.status >= 400 and message.startswith(OWN_STATUS))]
