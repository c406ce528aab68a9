"""Every list of the administration and a page of every table, as test_every_page.py looks at those of the site."""

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Browser, expect

from tests.admin import samples
from tests.browser import addresses, seeds, walking
from tests.browser.conftest import Visit
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)


class TestEveryPage:
    def test_of_the_administration_is_whole_silent_and_without_barriers(self, browser: Browser, server: Server) -> None:
        seeded = seeds.seed()
        samples.fill(1)  # a row for every table; what was seeded is what an evening leaves in some of them
        found = walking.faults(browser, server, seeded, wanted=addresses.of_the_administration(seeded))
        assert not found, "\n".join(found)

    def test_has_a_main_part(self, visit: Visit, boss: User) -> None:
        page = visit("/admin/jobs/job/", by=boss)
        expect(page.get_by_role("main")).to_have_count(1)
