"""Every list of the administration and a page of every table, as test_every_page.py looks at those of the site."""

import re
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, expect

from jobs import operations
from jobs.models import Job
from tests.admin import samples
from tests.browser import addresses, seeds, walking
from tests.browser.conftest import Visit
from tests.effort import turn
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)


class TestEveryPage:
    def test_of_the_administration_is_whole_silent_and_without_barriers(self, browser: Browser, server: Server) -> None:
        seeded = seeds.seed()
        samples.fill(1)  # a row for every table; what was seeded is what an evening leaves in some of them
        # Lists in four runs of eight, pages of rows in the others.
        wanted = turn(addresses.of_the_administration(seeded), of=8, beside=len(walking.LOOKS))
        found = walking.faults(browser, server, seeded, wanted=wanted)
        assert not found, "\n".join(found)

    def test_writes_moments_as_the_pages_of_the_farm_do(self, visit: Visit, boss: User) -> None:
        """In the reader's zone and way of writing."""
        operations.sync()
        job = operations.submit("chat", {"prompt": "Why?"}, owner=boss)
        tokyo = Job.objects.get(pk=job.pk).created_at.astimezone(ZoneInfo("Asia/Tokyo"))
        written = re.compile(f"{tokyo:%b} {tokyo.day}, {tokyo:%Y}, {tokyo.hour % 12 or 12}:{tokyo:%M:%S}\\s{tokyo:%p}")
        reader: dict[str, Any] = {"by": boss, "timezone_id": "Asia/Tokyo", "locale": "en-US"}
        for path, place in ((f"/jobs/{job.pk}/", "dd"), ("/admin/jobs/job/", "td.field-created_at")):
            expect(visit(path, **reader).locator(place, has_text=written).first).to_be_visible()
        plain = visit("/admin/jobs/job/", by=boss, java_script_enabled=False).locator("td.field-created_at")
        expect(plain.first).to_have_text(re.compile(r"\d \w{3} \d{4} \d\d:\d\d:\d\d UTC$"))
        expect(plain.first).to_be_visible()

    def test_has_a_main_part(self, visit: Visit, boss: User) -> None:
        page = visit("/admin/jobs/job/", by=boss)
        expect(page.get_by_role("main")).to_have_count(1)

    def test_says_why_a_schedule_is_none_within_the_width_of_a_phone(self, visit: Visit, boss: User) -> None:
        """The sentence comes after the page, and names what was typed, which may have no place to break."""
        page = visit("/new-cron/", by=boss, viewport={"width": 390, "height": 844})
        page.locator("#id_timing").fill("f" * 65)
        expect(page.locator("#firings")).to_contain_text("is not a schedule")
        assert page.evaluate("parseFloat(getComputedStyle(firings).marginTop)") > 0  # below the help, with some room
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
