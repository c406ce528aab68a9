"""A flow's page in a browser: picture and time line move without a reload."""

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from jobs import operations
from jobs.models import Job
from tests import farm
from tests.browser import farmhands
from tests.browser.conftest import Visit
from tests.browser.farmhands import SOON_MS
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)


class TestTheTimeLine:
    def test_is_live_and_is_read_by_keyboard(self, server: Server, visit: Visit, ada: User) -> None:
        operations.sync()
        worker = farm.worker("w1", "chat")
        first, last = operations.submit_many([
            farm.new_job("chat", {"prompt": "a"}, name="split", owner=ada),
            farm.new_job("chat", {"prompt": "b"}, name="join", after=["split"], owner=ada),
        ])  # fmt: skip
        page = visit(f"/flows/{Job.objects.get(pk=first).flow_id}/", by=ada)
        same = farmhands.stays(page)
        lanes = page.get_by_role("region", name="When each step waited and ran")
        expect(lanes.get_by_role("group", name="join: 0 bars")).to_be_visible()
        farm.succeed(worker, farm.claim_one(worker))
        expect(lanes.get_by_role("link", name=f"#{first} chat, success")).to_be_visible(timeout=SOON_MS)
        waits = lanes.get_by_role("link", name=f"#{last} chat, pending")
        expect(waits).to_be_visible(timeout=SOON_MS)
        waits.focus()
        expect(page.locator("[data-pointed-at]")).to_contain_text(f"#{last} chat, pending")
        page.keyboard.press("ArrowUp")
        expect(page.locator("[data-pointed-at]")).to_contain_text(f"#{first} chat, success")
        assert same()

    def test_has_names_as_high_as_their_lanes_so_that_no_bar_shows_beside_them_when_scrolled(
        self, server: Server, visit: Visit, ada: User
    ) -> None:
        operations.sync()
        worker = farm.worker("w1", "chat")
        parts = [farm.new_job("chat", {"prompt": "a"}, name=f"{n}", owner=ada) for n in range(50)]
        all_of_them = [one["name"] for one in parts]
        [first, *_] = operations.submit_many([*parts, farm.new_job("chat", {}, after=all_of_them, owner=ada)])
        for job in operations.claim(worker, limit=9):
            farm.fail(worker, job, retryable=False)
        page = visit(f"/flows/{Job.objects.get(pk=first).flow_id}/", by=ada)
        lane = page.get_by_role("listitem").filter(has=page.locator("svg[data-tracks='2']"))
        name, bars = lane.locator(".name").bounding_box(), lane.locator("svg").bounding_box()
        assert name is not None
        assert bars is not None
        assert name["y"] <= bars["y"]
        assert bars["y"] + bars["height"] <= name["y"] + name["height"]
