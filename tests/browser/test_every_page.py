"""Every page there is, in both themes and both widths: whole, silent, without barriers; and a picture of each.

One page is loaded once. Theme and width are changed under it, as a visitor turns a phone or a system its lamps out.
The pictures lie in the folder `pages` of JOBFARM_DATA, to be looked at.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.base import AXE_SCRIPT  # type: ignore[import-untyped]  # it ships no types
from django.conf import settings
from django.contrib.auth.models import User
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page

from tests.browser import seeds
from tests.browser.addresses import Address, addresses
from tests.browser.conftest import _session
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)

Theme = Literal["light", "dark"]
WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
# What a browser says of a page that answers as it should: with a fault.
OWN_STATUS = "Failed to load resource: the server responded with a status of"
# axe-core: all its rules once for each page, in light; in dark, and on a phone, those that colours decide. `preload`
# would fetch every sheet of the page once more, for one rule about turned phones that no sheet of ours can break.
LOOKS: tuple[tuple[Theme, dict[str, int], dict[str, Any] | None], ...] = (
    ("light", WIDE, {"preload": False}),
    ("light", NARROW, None),
    ("dark", NARROW, {"preload": False, "runOnly": ["color-contrast"]}),
    ("dark", WIDE, None),
)
BARRIERS = """async options => {
    const { violations } = await axe.run(document, { resultTypes: ["violations"], ...options });
    return violations
        .filter(({ impact }) => impact === "serious" || impact === "critical")
        .map(({ id, nodes }) => `${id} (${nodes.length}): ${nodes[0].target} ${nodes[0].failureSummary}`);
}"""
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def seeded(server: Server) -> seeds.Farm:
    """A farm on which everything has happened."""
    return seeds.seed()


@pytest.fixture
def pictures() -> Path:
    """Where the pictures of this walk lie."""
    folder = settings.JOBFARM_DATA / "pages"
    folder.mkdir(parents=True, exist_ok=True)
    return Path(folder)


class TestEveryPage:
    def test_of_the_site_is_whole_silent_and_without_barriers(
        self, browser: Browser, server: Server, seeded: seeds.Farm, pictures: Path
    ) -> None:
        mine = [address for address in addresses(seeded) if not address.is_admin]
        assert list(_faults(browser, server, seeded, mine, pictures)) == []

    def test_of_the_administration_is_too(
        self, browser: Browser, server: Server, seeded: seeds.Farm, pictures: Path
    ) -> None:
        mine = [address for address in addresses(seeded) if address.is_admin]
        assert list(_faults(browser, server, seeded, mine, pictures)) == []


def _faults(
    browser: Browser, server: Server, seeded: seeds.Farm, wanted: Iterable[Address], pictures: Path
) -> Iterator[str]:
    """What is wrong with these pages, a line each."""
    people = {"boss": seeded.boss, "member": seeded.member, "guest": seeded.guest, "": None}
    visitors = {name: _Visitor(browser, server, person) for name, person in people.items()}
    for address in wanted:
        yield from visitors[address.by].faults(address, pictures)
    for visitor in visitors.values():
        visitor.context.close()


class _Visitor:
    """Somebody with a browser of their own, and what its console said since it was last asked."""

    def __init__(self, browser: Browser, server: Server, person: User | None) -> None:
        self.context: BrowserContext = browser.new_context(
            base_url=server.url,
            reduced_motion="reduce",  # colours that fade over would be judged half-way
        )
        if person is not None:
            self.context.add_cookies([{"name": "sessionid", "value": _session(person), "url": server.url}])
        self.page: Page = self.context.new_page()
        self._heard: list[str] = []
        self._theme: Theme = "light"
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self._heard.append(str(error)))

    def faults(self, address: Address, pictures: Path) -> Iterator[str]:
        """What is wrong with one page in all themes and widths."""
        self._theme = LOOKS[0][0]
        self.page.emulate_media(color_scheme=self._theme)
        answer = self.page.goto(address.path)
        assert answer is not None
        if answer.status != address.status:
            yield f"{address.name}: {answer.status} in place of {address.status}"
        self.page.evaluate(AXE_SCRIPT)
        for theme, size, rules in LOOKS:
            self._turn(theme, address)
            self.page.set_viewport_size(size)  # type: ignore[arg-type]  # its type has no name
            at = f"{address.name}-{theme}-{size['width']}"
            self.page.screenshot(path=pictures / f"{at}.jpeg", type="jpeg", quality=70)
            yield from (f"{at}: {fault}" for fault in self._seen(rules))
        yield from (f"{address.name}: {said}" for said in self._said(address))

    def _turn(self, theme: Theme, address: Address) -> None:
        if theme == self._theme:
            return
        self._theme = theme
        self.page.emulate_media(color_scheme=theme)
        if address.is_admin:  # which asks once, as it is opened, what the system prefers
            self.page.reload()
            self.page.evaluate(AXE_SCRIPT)

    def _seen(self, rules: dict[str, Any] | None) -> Iterator[str]:
        if wider := self.page.evaluate(WIDER):
            yield f"{wider} pixels wider than the window"
        if rules is not None:
            yield from self.page.evaluate(BARRIERS, rules)

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self._heard.append(message.text)

    def _said(self, address: Address) -> list[str]:
        heard, self._heard = self._heard, []
        return [said for said in heard if not (address.status >= 400 and said.startswith(OWN_STATUS))]
