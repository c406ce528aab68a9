"""Every page of the site, in all looks, or one of four in one (`walking.looks`): whole, silent, without barriers.

The administration's are in test_every_admin_page.py, so that two of the suite's processes share the walk. With
JOBFARM_PICTURES=1 pictures of each lie in the folder `pages` of JOBFARM_DATA, to be looked at.
"""

import pytest
from playwright.sync_api import Browser

from tests.browser import addresses, seeds, walking
from tests.browser.conftest import Visit
from tests.effort import turn
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)


class TestEveryPage:
    def test_of_the_site_is_whole_silent_and_without_barriers(self, browser: Browser, server: Server) -> None:
        seeded = seeds.seed()
        wanted = turn(addresses.of_the_site(seeded), of=4, beside=len(walking.LOOKS))
        found = walking.faults(browser, server, seeded, wanted=wanted)
        assert not found, "\n".join(found)


WRONG = """
<p id="alike" style="color: #999; background: #aaa">Grey on grey.</p>
<p id="as-alike" style="color: #999; background: #aaa">Dressed as the one above: judged with it.</p>
<p id="hidden" style="color: #999; background: #bbb; display: none">Not to be seen, and so not judged yet.</p>
<button></button>
<div style="width: 3000px; height: 1px"></div>
"""


class TestTheWalk:
    def test_finds_what_is_wrong(self, visit: Visit) -> None:
        page = visit("/accounts/login/", bypass_csp=True)  # for the styles that are wrong on purpose
        page.evaluate(walking.JUDGES)
        assert (page.evaluate("judge.barriers()"), page.evaluate(walking.IN_THIS_LOOK, "light")) == ([], [])
        page.evaluate("html => { document.querySelector('main').innerHTML = html; }", WRONG)
        assert [fault.partition(" ")[0] for fault in page.evaluate("judge.barriers()")] == ["button-name"]
        wider, alike = page.evaluate(walking.IN_THIS_LOOK, "light")
        assert (wider.endswith("pixels wider than the window"), alike.partition(": ")[0], "#alike" in alike) == (
            True, "color-contrast (1)", True
        )  # fmt: skip
        assert len(page.evaluate(walking.IN_THIS_LOOK, "light")) == 1, "a text is judged once in a theme"
        page.evaluate("document.querySelector('#hidden').style.display = 'block'")
        assert "#hidden" in page.evaluate("judge.colours('light')")[0]
        assert page.evaluate("judge.colours('dark')")[0].startswith("color-contrast (2)")
