"""What hands and eyes notice: keys, focus and selection that stay, titles, and pages without any script."""

import pytest
from django.contrib.auth.models import Group, User
from playwright.sync_api import Locator, Page, Route, expect

from accounts import operations as accounts
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


def _submit(owner: User, *prompts: str) -> list[Job]:
    return [operations.submit("chat", {"prompt": prompt}, owner=owner) for prompt in prompts]


def _row(page: Page, job: Job) -> Locator:
    return page.locator(f"[data-key=j{job.pk}]")


def _has_focus(page: Page, job: Job) -> None:
    expect(_row(page, job).get_by_role("link").first).to_be_focused()


class TestKeys:
    def test_lead_through_a_list_while_it_changes(self, visit: Visit, boss: User) -> None:
        first, second, third = _submit(boss, "one", "two", "three")
        page = visit("/jobs/", by=boss)
        page.keyboard.press("j")
        _has_focus(page, third)
        page.keyboard.press("ArrowDown")
        _has_focus(page, second)
        _row(page, third).locator(".excerpt").evaluate("text => getSelection().selectAllChildren(text)")
        [newer] = _submit(boss, "four")
        expect(_row(page, newer)).to_be_visible(timeout=SOON_MS)
        _has_focus(page, second)
        assert page.evaluate("String(getSelection())").strip() == "three"
        page.keyboard.press("End")
        _has_focus(page, first)
        page.keyboard.press("k")
        _has_focus(page, second)
        page.keyboard.press("Enter")
        page.wait_for_url(f"**/jobs/{second.pk}/")

    def test_go_on_in_the_next_row_when_theirs_is_gone(self, visit: Visit, boss: User) -> None:
        first, second = _submit(boss, "one", "two")
        page = visit("/jobs/?status=pending", by=boss)
        page.keyboard.press("j")
        _has_focus(page, second)
        operations.cancel(second.pk, by=None)
        expect(_row(page, second)).to_have_count(0, timeout=SOON_MS)
        _has_focus(page, first)

    def test_cancel_after_asking_from_a_row_and_from_its_page(self, visit: Visit, boss: User) -> None:
        first, second = _submit(boss, "one", "two")
        page = visit("/jobs/", by=boss)
        page.keyboard.press("j")
        page.keyboard.press("c")
        expect(page.get_by_role("dialog")).to_contain_text(f"Cancel #{second.pk} chat?")
        page.keyboard.press("Enter")  # without reading: that is a no
        _has_focus(page, second)
        page.keyboard.press("c")
        page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
        farmhands.shows(_row(page, second), "canceled")
        farmhands.shows(page.locator("#toasts"), "no worker ever ran it")
        assert farm.status(first) == "pending"
        page.goto(f"/jobs/{first.pk}/")
        expect(page).to_have_title(f"… pending · chat #{first.pk} · jobfarm")
        page.keyboard.press("c")
        page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
        farmhands.status(page, "canceled")
        expect(page).to_have_title(f"⊘ canceled · chat #{first.pk} · jobfarm")

    def test_search_explain_themselves_and_can_be_turned_off(self, visit: Visit, boss: User) -> None:
        page = visit("/queues/", by=boss)
        page.keyboard.press("/")
        page.wait_for_url("**/jobs/#filter-text")
        text = page.get_by_label("Text")
        expect(text).to_be_focused()
        page.keyboard.type("c?j/")
        expect(text).to_have_value("c?j/")
        expect(page.get_by_role("dialog")).to_have_count(0)
        page.keyboard.press("Escape")
        expect(text).not_to_be_focused()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keyboard")).to_contain_text("The next row")
        page.get_by_label("Keys without Ctrl or Alt work").uncheck()
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        expect(text).not_to_be_focused()
        page.get_by_role("button", name="Keyboard").click()
        expect(page.get_by_label("Keys without Ctrl or Alt work")).not_to_be_checked()


class TestADoubleClick:
    def test_sends_a_form_once(self, visit: Visit, boss: User) -> None:
        page, sent = visit("/jobs/new/", by=boss), list[Route]()
        # Held, so that the page stays for the second click. Playwright marks handlers, which no method of a list takes.
        page.route("**/jobs/new/?kind=chat", lambda route: sent.append(route))  # noqa: PLW0108
        page.get_by_label("What should it answer?").fill("Why is the sky blue?")
        page.get_by_role("button", name="Ask").dblclick(delay=50)
        sent[-1].continue_()
        expect(page.locator("h1")).to_contain_text("chat #")
        assert (len(sent), Job.objects.count()) == (1, 1)

    def test_sends_a_form_of_the_administration_once(self, visit: Visit, boss: User) -> None:
        page, sent = visit("/admin/auth/group/add/", by=boss), list[Route]()
        page.route("**/admin/auth/group/add/", lambda route: sent.append(route))  # noqa: PLW0108
        page.locator("#id_name").fill("Painters")
        page.get_by_role("button", name="Save", exact=True).dblclick(delay=50)
        sent[-1].continue_()
        page.wait_for_url("**/admin/auth/group/")
        assert (len(sent), Group.objects.count()) == (1, 1)


class TestWithoutScripts:
    def test_one_logs_in_submits_looks_and_cancels(self, visit: Visit, boss: User) -> None:
        page = visit(accounts.one_time_link(boss), java_script_enabled=False)
        page.get_by_role("button", name="Log in").click()
        page.get_by_role("link", name="Submit a job").click()
        page.get_by_role("link", name="Chat", exact=True).last.click()
        page.get_by_label("What should it answer?").fill("Why is the sky blue?")
        page.get_by_role("button", name="Ask").click()
        job = Job.objects.get()
        expect(page.locator("h1")).to_have_text(f"chat #{job.pk}")
        expect(page.locator(".job-state")).to_contain_text("pending")
        expect(page.locator("time").first).to_contain_text("UTC")
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator(".messages")).to_contain_text("Canceled before it started: no worker ever ran it.")
        expect(page.get_by_role("button", name="Retry")).to_be_visible()
        page.get_by_role("link", name="Jobs", exact=True).click()
        page.get_by_label("Status").select_option("canceled")
        page.get_by_role("button", name="Filter").click()
        expect(_row(page, job)).to_contain_text("canceled")
