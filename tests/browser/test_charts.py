"""Charts by pointer, keyboard and touch: what a step holds is shown and said, and stays while numbers change."""

from datetime import datetime, timedelta

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Locator, Page, expect

from jobs import operations
from jobs.domain import rollups
from jobs.models import Rollup, RollupWatermark
from jobs.operations.rollup import TOPIC
from live import operations as live
from tests import farm
from tests.browser import farmhands
from tests.browser.conftest import Visit
from tests.browser.farmhands import SOON_MS
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)

STEPS_AGO = 30
VALUES = ".step-values"
# When the step begins that the first chart marks, and how the charts mark theirs: read at once, as minutes end.
CHOSEN = """() => {
    const charts = document.querySelector("[data-charts]"), { begin, step, steps } = charts.dataset
    const x = parseFloat(charts.querySelector(".chosen-step").getAttribute("d").slice(1))
    return Number(begin) + Math.round(x * Number(steps) / 1000) * Number(step)
}"""
MARKS = "marks => marks.map((mark) => mark.getAttribute('d'))"


@pytest.fixture
def half_past(server: Server, boss: User) -> datetime:
    """A minute half an hour ago in which three chats came and two ended, and which is counted; so is the last one."""
    operations.sync()
    now = farm.now()
    at = rollups.floored(now, step_s=60) - timedelta(minutes=STEPS_AGO)
    for minutes, arrived in ((0, 3), (7, 12), (STEPS_AGO, 1)):
        _count(at + timedelta(minutes=minutes), arrived=arrived)
    RollupWatermark.objects.create(settled_until=now, counted_at=now)
    return at


def _count(at: datetime, *, arrived: int) -> None:
    Rollup.objects.create(
        step_s=60, at=at, queue="chat", kind="chat", arrived=arrived, success=1, failed=1, canceled=0, timed_out=0,
        ran={str(rollups.bucket(3)): 1, str(rollups.bucket(40)): 1}, waited={str(rollups.bucket(0.5)): 2},
    )  # fmt: skip


def _index(page: Page, at: datetime) -> int:
    """Which step of the page's charts begins then. A minute that ends moves all of them by one."""
    begin = page.locator("[data-charts]").get_attribute("data-begin")
    return (int(at.timestamp()) - int(begin or 0)) // 60


def _walk_to(page: Page, at: datetime) -> None:
    """Press arrow keys until the step that begins then is chosen, whatever minute ends meanwhile."""
    while steps := (int(at.timestamp()) - page.evaluate(CHOSEN)) // 60:
        page.keyboard.press("ArrowRight" if steps > 0 else "ArrowLeft")


def _point(page: Page, chart: Locator, at: datetime) -> None:
    """Point at the step that begins then: again where a minute ended meanwhile."""
    width = (chart.bounding_box() or {"width": 0})["width"] / 60
    index = None
    while index != (index := _index(page, at)):
        chart.hover(position={"x": width * (index + 0.5), "y": 20})


def _says(page: Page, text: str) -> None:
    expect(page.get_by_role("status").and_(page.locator(VALUES))).to_contain_text(text, timeout=SOON_MS)


class TestAStep:
    def test_is_read_by_the_keyboard_and_stays_chosen_while_its_numbers_change(
        self, visit: Visit, boss: User, half_past: datetime
    ) -> None:
        page = visit("/", by=boss)
        chart = page.locator("[data-charts] .steps").first
        chart.focus()
        page.keyboard.press("Home")
        counted = page.locator("[data-charts]").get_attribute("data-counted") or ""
        _says(page, "Not counted." if counted[0] == "0" else "No job arrived or ended.")
        _walk_to(page, half_past)
        _says(page, "Arrived 3")
        page.keyboard.press("End")
        _walk_to(page, half_past)
        _says(page, "Arrived 3")
        _says(page, "Failed 1")
        marked = page.locator("[data-charts] .chosen-step")
        first, *others = marked.evaluate_all(MARKS)
        assert first
        assert others == [first] * 2
        Rollup.objects.filter(at=half_past).update(arrived=4)
        live.touch(TOPIC)
        _says(page, "Arrived 4")
        expect(chart).to_be_focused()
        assert marked.first.get_attribute("d")
        page.keyboard.press("Escape")
        expect(page.locator(VALUES)).to_be_hidden()

    def test_is_shown_where_a_pointer_is_and_no_longer_once_it_leaves(
        self, visit: Visit, boss: User, half_past: datetime
    ) -> None:
        page = visit("/queues/chat/", by=boss)
        chart = page.locator("[data-charts] .steps").nth(2)
        _point(page, chart, half_past)
        _says(page, "Arrived 3")
        _point(page, chart, half_past + timedelta(minutes=1))
        _says(page, "No job arrived or ended.")
        page.locator("h1").hover()
        expect(page.locator(VALUES)).to_be_hidden()

    def test_is_shown_by_a_tap_within_a_phones_width_until_another_place_is_tapped(
        self, visit: Visit, boss: User, half_past: datetime
    ) -> None:
        phone = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "timezone_id": "Asia/Tokyo"}
        page = visit("/", by=boss, **phone)
        chart = page.locator("[data-charts] .steps").first
        box = chart.bounding_box()
        assert box
        last = _index(page, half_past) + STEPS_AGO  # at the edge, where the values are wider than what is left
        chart.tap(position={"x": box["width"] / 60 * (last + 0.5), "y": 40})
        _says(page, "Arrived 1")
        values = page.locator(VALUES).bounding_box()
        assert values
        assert values["x"] >= 0
        assert values["x"] + values["width"] <= 390
        page.locator("h1").tap()
        expect(page.locator(VALUES)).to_be_hidden()
        tick = page.locator("text[data-time]").first
        in_tokyo = datetime.fromisoformat(tick.get_attribute("data-time") or "") + timedelta(hours=9)
        farmhands.shows(tick, f"{(in_tokyo.hour - 1) % 12 + 1}:{in_tokyo:%M}")
        assert in_tokyo.minute % 15 == 0
