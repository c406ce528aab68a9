"""The pages of scheduled functions and crons in a browser: live, with the buttons that make sense."""

import uuid
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from scheduling import operations as scheduling
from scheduling.models import Cron, ScheduledFunction
from scheduling.operations import clusters, crons
from scheduling.queries import functions
from scheduling.queries.functions import Holder
from tests.browser import farmhands
from tests.browser.conftest import Visit
from tests.browser.farmhands import SOON_MS
from tests.scheduling.integration import sample
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _one_cron(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crons, "_declared", {})
    scheduling.declare("greet", scheduling.daily(hour=6, tz="Europe/Berlin"), sample.say, word="hi")
    scheduling.sync_crons()


class TestFunctions:
    def test_are_seen_as_they_go_canceled_and_run_again(self, visit: Visit, boss: User) -> None:
        """From the bar to the list, to one function, to its cancel, to the new row that runs it again."""
        page = visit("/", by=boss)
        operations = page.get_by_role("navigation", name="Operations")
        operations.get_by_text("Operate").click()
        operations.get_by_role("link", name="Functions").click()
        row = scheduling.run_after(timedelta(hours=1), sample.say, word="hello")
        listed = page.locator(f"[data-key=f{row.pk}]")
        expect(listed).to_contain_text("pending", timeout=SOON_MS)
        listed.get_by_role("link").click()
        expect(page.get_by_role("button", name="Run again")).to_be_hidden()
        page.get_by_role("button", name="Cancel").click()
        farmhands.shows(page.locator(".messages"), "Canceled: it will never run.")
        expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
        page.get_by_role("button", name="Run again").click()
        farmhands.shows(page.locator(".messages"), "Scheduled again as #")
        again = ScheduledFunction.objects.get(run_again_of=row.pk)
        farmhands.shows(page.locator(".messages"), f"Scheduled again as #{again.pk}.")
        same = farmhands.stays(page)
        assert scheduling.run_due() == 1
        expect(page.locator(".function-state")).to_have_text("success", timeout=SOON_MS)
        farmhands.shows(page.locator("main"), "hello")
        expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
        assert same()

    def test_whose_end_nobody_knows_are_marked(self, visit: Visit, boss: User) -> None:
        row = scheduling.run_after(0, sample.say, word="hello")
        cluster_id = _cluster()
        [handed] = clusters.dispatch(scheduling.Kind.ACTION, limit=1)
        assert functions.start(handed.id, by=Holder(cluster_id=cluster_id, ran_by="here:1")) is not None
        page = visit("/functions/?status=unknown", by=boss)
        expect(page.get_by_text("No functions here")).to_be_visible()
        clusters.end(cluster_id, ending="died", why="a test")
        badge = page.locator(f"[data-key=f{row.pk}] [data-status=unknown]")
        expect(badge).to_be_visible(timeout=SOON_MS)
        plain = page.evaluate("getComputedStyle(document.body).color")
        assert badge.evaluate("element => getComputedStyle(element).color") != plain


def _cluster() -> uuid.UUID:
    cluster_id = uuid.uuid4()
    clusters.begin(cluster_id, role="actions")
    return cluster_id


class TestCrons:
    def test_are_paused_resumed_and_run_now(self, visit: Visit, boss: User) -> None:
        page = visit("/functions/", by=boss)
        operations = page.get_by_role("navigation", name="Operations")
        operations.get_by_text("Operate").click()
        operations.get_by_role("link", name="Crons").click()
        page.get_by_role("link", name="greet").click()
        expect(page.locator(".firings li")).to_have_count(10)
        page.get_by_role("button", name="Pause").click()
        expect(page.locator(".cron-state")).to_have_text("paused", timeout=SOON_MS)
        assert Cron.objects.get().paused_at is not None
        expect(page.get_by_role("button", name="Pause")).to_be_hidden()
        page.get_by_role("button", name="Resume").click()
        expect(page.locator(".cron-state")).to_have_text("active", timeout=SOON_MS)
        assert Cron.objects.get().paused_at is None
        page.get_by_role("button", name="Run now").click()
        fired = page.locator(f"[data-key=f{ScheduledFunction.objects.get().pk}]")
        expect(fired).to_contain_text("pending", timeout=SOON_MS)
        assert scheduling.run_due() == 1
        expect(fired).to_contain_text("success", timeout=SOON_MS)


class TestSmallScreens:
    def test_nothing_reaches_over_the_edge(self, visit: Visit, boss: User) -> None:
        row = scheduling.run_after(0, sample.break_down_and_be_tried_again, word="x" * 300)
        scheduling.run_due()
        for path in ("/functions/", f"/functions/{row.pk}/", "/crons/", "/crons/greet/"):
            page = visit(path, by=boss, viewport={"width": 320, "height": 900})
            for traceback in page.locator("summary", has_text="Traceback").all():
                traceback.click()
            over = page.evaluate(
                "[document.documentElement, ...document.querySelectorAll('.card')]"
                ".map(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth).filter((over) => over > 0)"
            )
            assert (path, over) == (path, [])
            page.context.close()
