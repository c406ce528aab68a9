"""What a job writes, in a browser: much of it, searched; and values that fold, whose parts are copied."""

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from jobs import operations
from jobs.models import Job, Worker
from tests import farm
from tests.browser import farmhands
from tests.browser.conftest import Visit
from tests.browser.farmhands import SOON_MS
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
AT_END = "({ scrollHeight, scrollTop, clientHeight }) => scrollHeight - scrollTop - clientHeight < 24"
LINES = 100_000
# Playwright's own clipboard needs a permission that the headless shell does not have.
COPIES = """() => {
  window.copies = [];
  const writeText = async (text) => { window.copies.push(text); };
  Object.defineProperty(navigator, "clipboard", { value: { writeText } });
}"""


@pytest.fixture
def worker(server: Server) -> Worker:
    """Who works."""
    operations.sync()
    return farm.worker("w1", "chat", "image")


@pytest.fixture
def job(ada: User, worker: Worker) -> Job:
    """What is worked on."""
    return operations.submit("image", {"prompt": "A lighthouse", "sizes": [{"wide": 12345678901234567890}]}, owner=ada)


def _hits(page: Page) -> list[str]:
    texts: list[str] = page.evaluate("[...(CSS.highlights.get('output-hits') ?? [])].map(String)")
    return texts


class TestOutput:
    def test_of_a_hundred_thousand_lines_is_whole_and_stays_at_its_end(
        self, visit: Visit, ada: User, worker: Worker, job: Job
    ) -> None:
        claimed = farm.claim_one(worker)
        pieces = ["".join(f"line {n}\n" for n in range(at, at + 5000)) for at in range(0, LINES, 5000)]
        farmhands.write(worker, claimed, *pieces)
        page = visit(f"/jobs/{job.pk}/", by=ada)
        output = page.locator(".output")
        farmhands.shows(output, f"line {LINES - 1}")
        assert output.evaluate("(output) => output.textContent") == "".join(pieces)
        expect(page.locator(".output .block")).to_have_count(LINES // 500)
        assert output.evaluate(AT_END)
        farmhands.write(worker, claimed, "the last one", first=len(pieces))
        farmhands.shows(output, "the last one")
        assert output.evaluate(AT_END)
        assert page.get_by_label("Follow").is_checked()

    def test_is_searched_match_by_match_also_in_what_comes_later(
        self, visit: Visit, ada: User, worker: Worker, job: Job
    ) -> None:
        claimed = farm.claim_one(worker)
        farmhands.write(worker, claimed, *(f"Loss {n} of epoch\n" for n in range(30)), "a loss", "y end\n")
        page = visit(f"/jobs/{job.pk}/", by=ada)
        farmhands.shows(page.locator(".output"), "a lossy end")
        page.get_by_label("Search the output").fill("loss 2")
        farmhands.shows(page.locator("[data-hits]"), "11")
        assert _hits(page) == ["Loss 2"] * 11
        page.get_by_label("Match after this one").click()
        farmhands.shows(page.locator("[data-hits]"), "1 of 11")
        assert not page.get_by_label("Follow").is_checked()
        page.get_by_label("Match before this one").click()
        farmhands.shows(page.locator("[data-hits]"), "11 of 11")
        farmhands.write(worker, claimed, "Loss 200\n", first=32)
        farmhands.shows(page.locator("[data-hits]"), "11 of 12")
        page.get_by_label("Search the output").fill("lossy")  # across two pieces
        farmhands.shows(page.locator("[data-hits]"), "1 of 1")
        page.get_by_label("Search the output").fill("nothing like it")
        farmhands.shows(page.locator("[data-hits]"), "no match")
        page.get_by_label("Search the output").fill("")
        expect(page.locator("[data-hits]")).to_be_empty(timeout=SOON_MS)
        assert _hits(page) == []


class TestATree:
    def test_says_the_path_of_a_field_and_copies_its_value_with_all_its_digits(
        self, visit: Visit, ada: User, job: Job
    ) -> None:
        page = visit(f"/jobs/{job.pk}/", by=ada)
        page.evaluate(COPIES)
        page.get_by_role("heading", name="Payload").click()
        page.locator(".json .leaf", has_text="12345678901234567890").click()
        expect(page.locator(".json .tools code")).to_have_text("$.sizes[0].wide")
        page.get_by_role("button", name="Copy path").click()
        page.get_by_role("button", name="Copy value").click()
        page.locator(".json .leaf", has_text="A lighthouse").click()
        page.get_by_role("button", name="Copy value").click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        assert page.evaluate("copies") == ["$.sizes[0].wide", "12345678901234567890", "A lighthouse"]

    def test_is_walked_by_the_arrows(self, visit: Visit, ada: User, job: Job) -> None:
        page = visit(f"/jobs/{job.pk}/", by=ada)
        page.get_by_role("heading", name="Payload").click()
        page.locator(".json summary").first.focus()
        for path in ("$.sizes", "$.sizes[0]", "$.sizes[0].wide", "$.prompt"):
            page.keyboard.press("ArrowDown")
            expect(page.locator(".json .tools code")).to_have_text(path)


def test_a_moment_names_its_zone_and_says_utc_beside(visit: Visit, ada: User, job: Job) -> None:
    page = visit(f"/jobs/{job.pk}/", by=ada)
    submitted = page.locator(".facts time").first
    moment = f"{Job.objects.get(pk=job.pk).created_at:%Y-%m-%d %H:%M:%S} UTC"
    expect(submitted).to_have_attribute("title", moment, timeout=SOON_MS)  # this browser is in UTC
    expect(submitted).to_contain_text("UTC")
