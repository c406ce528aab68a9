"""The pages of limits in a browser: gauges that move by themselves, and a reset that asks first."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from ratelimits import operations as limits
from ratelimits.models import Bucket
from ratelimits.operations import TokenBucket
from tests.browser import farmhands
from tests.browser.conftest import Visit
from tests.browser.farmhands import SOON_MS

pytestmark = pytest.mark.django_db(transaction=True)
CONFIG = TokenBucket(10, timedelta(days=1000))


def take(count: float, *, key: str = "ada & <b>bob</b>") -> None:
    """Use a limit, as some other process does."""
    limits.limit("test/page", key=key, count=count, config=CONFIG)


class TestGauges:
    def test_move_by_themselves_and_a_reset_asks_first(self, visit: Visit, boss: User) -> None:
        take(4)
        page = visit("/limits/", by=boss)
        same = farmhands.stays(page)
        row = page.locator("[data-key^='test/page']")
        farmhands.shows(row, "6 of 10")
        take(3)
        farmhands.shows(row, "3 of 10")
        take(1, key="eve")
        expect(row).to_have_count(2, timeout=SOON_MS)
        assert same()
        row.first.get_by_role("link").click()
        state = page.get_by_label("Tokens", exact=True)
        farmhands.shows(state, "3 of 10")
        page.get_by_role("button", name="Reset").click()
        page.get_by_role("dialog").get_by_role("button", name="Back").click()
        farmhands.shows(state, "3 of 10")
        page.get_by_role("button", name="Reset").click()
        page.get_by_role("dialog").get_by_role("button", name="Reset it").click()
        farmhands.shows(page.locator("main"), "The limit was reset: all its tokens are available.")
        assert list(Bucket.objects.values_list("key", flat=True)) == ["eve"]
        take(2)
        farmhands.shows(page.get_by_label("Tokens", exact=True), "8 of 10")
