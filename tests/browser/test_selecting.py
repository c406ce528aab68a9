"""The list of jobs in a browser: rows are selected, and it stands still while somebody reads."""

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


@pytest.fixture(autouse=True)
def _kinds(server: Server) -> None:
    operations.sync()


def test_rows_are_selected_one_by_one_in_a_range_and_all(visit: Visit, boss: User) -> None:
    jobs = farm.submit(5, "chat", owner=boss)
    page = visit("/jobs/", by=boss)
    boxes = page.locator('input[name="job"]')
    expect(page.locator("#selected")).to_be_hidden()
    boxes.nth(0).check()
    boxes.nth(2).click(modifiers=["Shift"])
    expect(page.locator("#selected .count")).to_have_text("3 selected")
    page.get_by_label("Select all jobs that are shown").check()
    expect(page.locator("#selected .count")).to_have_text("5 selected")
    page.get_by_role("button", name="Clear the selection").click()
    expect(page.locator("#selected")).to_be_hidden()
    boxes.nth(1).check()
    page.locator("#selected").get_by_role("button", name="Cancel…").click()
    farmhands.shows(page.locator(".bulk-state"), "Cancel 1 job?")
    page.get_by_role("button", name="Cancel 1 job").click()
    expect(page.locator(".bulk-state[data-phase=running], .bulk-state[data-phase=done]")).to_be_visible(timeout=SOON_MS)
    assert not Job.objects.ended("canceled").exclude(pk=jobs[3].pk).exists()


def test_a_list_in_which_rows_are_selected_stands_still_and_is_up_to_date(visit: Visit, boss: User) -> None:
    first, second = farm.submit(2, "chat", owner=boss)
    page = visit("/jobs/", by=boss)
    box = page.get_by_label(f"Select job {second.pk}")
    box.check()
    new = operations.submit("chat", {}, owner=boss)
    operations.cancel(first.pk, by=None)
    farmhands.shows(page.locator(f"[data-key=j{first.pk}]"), "canceled")  # what is shown changes where it is
    expect(page.locator(".held")).to_have_text("Show 1 new job", timeout=SOON_MS)
    expect(page.locator(f"[data-key=j{new.pk}]")).to_have_count(0)
    expect(box).to_be_checked()
    page.get_by_role("button", name="Show 1 new job").click()
    expect(page.locator(f"[data-key=j{new.pk}]")).to_be_visible(timeout=SOON_MS)
    expect(page.locator(".held")).to_be_empty()
    expect(box).not_to_be_checked()


def test_a_list_that_was_scrolled_stands_still_until_its_reader_is_back_at_its_head(visit: Visit, boss: User) -> None:
    farm.submit(40, "chat", owner=boss)
    page = visit("/jobs/", by=boss)
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    expect(page.locator('[data-live="jobs"][data-live-still]')).to_have_count(1)
    new = operations.submit("chat", {}, owner=boss)
    expect(page.locator(".held")).to_have_text("Show 1 new job", timeout=SOON_MS)
    page.evaluate("window.scrollTo(0, 0)")
    expect(page.locator(f"[data-key=j{new.pk}]")).to_be_visible(timeout=SOON_MS)


def test_a_filter_is_saved_used_and_deleted(visit: Visit, boss: User) -> None:
    farm.submit(1, "chat", owner=boss)
    page = visit("/jobs/?status=pending", by=boss)
    page.get_by_text("Save this filter").click()
    page.get_by_label("Name").fill("what waits")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("link", name="what waits").click()
    assert page.url.endswith("/jobs/?status=pending")
    page.get_by_role("button", name="Delete the saved filter what waits").click()
    expect(page.get_by_role("link", name="what waits")).to_have_count(0)
