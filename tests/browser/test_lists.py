"""The overview, the lists, queues and workers in a browser: live, and without anybody else's business."""

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from jobs import operations
from jobs.domain.presence import Part
from jobs.models import Job, Queue, Worker
from jobs.operations.workers import Presence
from scheduling.models import ScheduledFunction
from tests import farm
from tests.browser import farmhands
from tests.browser.conftest import Visit
from tests.browser.farmhands import SOON_MS
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _kinds(server: Server) -> None:
    operations.sync()


class TestLive:
    def test_the_overview_moves_by_itself(self, visit: Visit, boss: User) -> None:
        worker = farm.worker("w1", "chat")
        page = visit("/", by=boss)
        same = farmhands.stays(page)
        job = operations.submit("chat", {"prompt": "Why is the sky blue?"}, owner=boss)
        waiting = page.locator("[data-key=qchat] [data-label=Pending]")
        expect(waiting).to_have_text("1", timeout=SOON_MS)
        claimed = farm.claim_one(worker)
        operations.heartbeat(worker, job.pk, claimed.lease, progress=0.5, detail="Thinking")
        row = page.locator(f"[data-key=running] [data-key=j{job.pk}]")
        farmhands.shows(row, "Why is the sky blue?")
        farmhands.shows(row, "Thinking")
        farmhands.shows(page.locator("[data-key=workers]"), f"#{job.pk} chat")
        farm.succeed(worker, claimed)
        farmhands.shows(page.locator(f"[data-key=ended] [data-key=j{job.pk}]"), "success")
        expect(row).to_have_count(0, timeout=SOON_MS)
        operations.roll_up()
        farmhands.shows(page.locator(".numbers"), "Success in the last hour · of 1 job")
        farmhands.shows(page.locator(".numbers"), "100 %")
        farmhands.shows(page.locator("[data-live=overview-charts]"), "1 success")
        expect(page.get_by_role("img", name="Jobs in the last hour: 1 arrived, 1 success")).to_be_visible()
        assert same()

    def test_a_list_shows_new_jobs_of_its_filter_alone(self, visit: Visit, boss: User) -> None:
        page = visit("/jobs/?kind=chat", by=boss)
        other = operations.submit("image", {}, owner=boss)
        job = operations.submit("chat", {}, owner=boss)
        expect(page.locator(f"[data-key=j{job.pk}]")).to_be_visible(timeout=SOON_MS)
        expect(page.locator(f"[data-key=j{other.pk}]")).to_have_count(0)
        operations.cancel(job.pk, by=None)
        farmhands.shows(page.locator(f"[data-key=j{job.pk}]"), "canceled")

    def test_a_member_is_not_told_of_others(self, visit: Visit, boss: User) -> None:
        eve = farm.user("eve")
        overview, listed = visit("/", by=eve), visit("/jobs/", by=eve)
        secret = operations.submit("chat", {"prompt": "a secret"}, owner=boss)
        own = operations.submit("chat", {"prompt": "her own"}, owner=eve)
        expect(listed.locator(f"[data-key=j{own.pk}]")).to_be_visible(timeout=SOON_MS)
        expect(overview.locator("[data-key=qchat] [data-label=Pending]")).to_have_text("1", timeout=SOON_MS)
        for page in (overview, listed):
            assert "a secret" not in page.content()
            assert f"/jobs/{secret.pk}/" not in page.content()


class TestManyAtOnce:
    def test_are_counted_then_changed_before_ones_eyes_and_put_back(self, visit: Visit, boss: User) -> None:
        for n in range(3):
            operations.submit("chat", {"prompt": f"number {n}"}, owner=boss)
        page = visit("/jobs/?kind=chat&text=number", by=boss)
        page.get_by_text("Bulk action…").click()
        page.get_by_label("Give all matching that are pending the priority").check()
        page.get_by_label("The new priority").fill("42")
        page.get_by_role("button", name="Count matching jobs").click()
        farmhands.shows(page.locator(".bulk-state"), "Give 3 jobs the priority 42?")
        assert not Job.objects.filter(priority=42).exists()
        page.get_by_role("button", name="Give 3 jobs the priority 42").click()
        same = farmhands.stays(page)
        expect(page.get_by_role("button", name="Undo")).to_be_hidden()
        _run_steps()
        farmhands.shows(page.locator(".bulk-state"), "3 changed")
        assert Job.objects.filter(priority=42).count() == 3
        page.get_by_role("button", name="Undo").click()
        assert same()
        page.get_by_role("dialog").get_by_role("button", name="Undo").click()
        farmhands.shows(page.locator(".facts"), "Undoes")
        _run_steps()
        farmhands.shows(page.locator(".bulk-state"), "3 put back")
        assert not Job.objects.filter(priority=42).exists()


def _run_steps() -> None:
    """What a cluster does."""
    for row in ScheduledFunction.objects.filter(function__endswith="bulk.step"):
        operations.bulk.step(**row.args)


class TestQueuesAndWorkers:
    def test_a_queue_is_paused_and_resumed_in_its_page(self, visit: Visit, boss: User) -> None:
        page = visit("/queues/", by=boss)
        page.get_by_role("link", name="chat", exact=True).click()
        page.get_by_role("button", name="Pause").click()
        farmhands.shows(page.locator("#toasts"), "Paused: none of its jobs is claimed any more.")
        resume = page.get_by_role("button", name="Resume")
        expect(resume).to_be_visible(timeout=SOON_MS)
        assert Queue.objects.get(pk="chat").paused_at is not None
        resume.click()
        expect(page.get_by_role("button", name="Pause")).to_be_visible(timeout=SOON_MS)
        assert Queue.objects.get(pk="chat").paused_at is None

    def test_a_worker_is_made_with_a_key_to_copy_and_revoked(self, visit: Visit, boss: User) -> None:
        page = visit("/workers/", by=boss)
        page.get_by_role("link", name="Connect a worker").first.click()
        page.get_by_label("Name").fill("the GPU under my desk")
        page.get_by_role("button", name="Create the worker").click()
        key = page.inner_text("#key").strip()
        assert operations.authenticate(key).name == "the GPU under my desk"
        assert f"JOBFARM_KEY={key} " in page.inner_text("#command")
        page.get_by_role("link", name="Done").click()
        farmhands.shows(page.locator(".worker-state"), "live")
        page.get_by_role("button", name="Revoke").click()
        page.get_by_role("button", name="Revoke the key").click()
        farmhands.shows(page.locator(".worker-state"), "revoked")
        expect(page.get_by_role("button", name="Revoke")).to_be_hidden()
        assert Worker.objects.get().revoked_at is not None

    def test_the_name_of_a_worker_breaks_within_no_word(self, visit: Visit, boss: User) -> None:
        farm.worker("demonstrator", "chat", *(f"openai.demonstrator-{n}" for n in range(5)))
        page = visit("/workers/", by=boss)
        page.set_viewport_size({"width": 1280, "height": 900})
        lines = page.get_by_role("link", name="demonstrator", exact=True).evaluate("it => it.getClientRects().length")
        assert lines == 1


class TestSmallScreens:
    def test_nothing_reaches_over_the_edge(self, visit: Visit, boss: User) -> None:
        word = "x" * 300
        worker = farm.worker("w" * 100, "chat")
        job = operations.submit("chat", {"prompt": word, "deep": {word: word}}, owner=boss, unique_key="k" * 200)
        claimed = farm.claim_one(worker)
        operations.heartbeat(worker, job.pk, claimed.lease, progress=0.5, detail=word)
        farmhands.write(worker, claimed, word)
        farm.fail(worker, claimed, word)
        operations.share(job.pk, by=boss)
        Presence(part=Part.JANITOR).report()  # the overview lists processes
        page = visit("/", by=boss)
        for path in (
            "/",
            "/jobs/?since=2026-01-01T00:00",
            f"/jobs/{job.pk}/",
            "/jobs/bulk/",
            "/jobs/new/",
            "/queues/",
            "/queues/chat/",
            "/workers/",
        ):
            page.goto(path)
            for width in (320, 390, 768, 1440):
                page.set_viewport_size({"width": width, "height": 900})
                over = page.evaluate(
                    "[document.documentElement, ...document.querySelectorAll('.card')]"
                    ".map(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth).filter((over) => over > 0)"
                )
                assert (path, width, over) == (path, width, [])
