"""A job's page in a browser: everything moves without a reload, and ends as it ended."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from django.contrib.auth.models import Group, User
from playwright.sync_api import expect

from jobs import operations
from jobs.models import Job, Worker
from tests import farm
from tests.browser import farmhands
from tests.browser.conftest import Visit
from tests.browser.farmhands import SOON_MS
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
# The demonstrator at its own pace. A picture as large as it paints by itself took ten seconds of a processor.
WATCHED = "image=tests.browser.imagegame.painters:paint_watched"


@pytest.fixture(autouse=True)
def _kinds(server: Server) -> None:
    operations.sync()


@pytest.fixture
def worker(server: Server) -> Worker:
    """Who works."""
    operations.sync()
    return farm.worker("w1", "chat", "image")


@pytest.fixture
def job(ada: User) -> Job:
    """What is worked on."""
    return operations.submit("image", {"prompt": "A lighthouse in fog"}, owner=ada)


class TestLive:
    def test_a_job_is_followed_from_waiting_to_its_end(self, visit: Visit, ada: User, worker: Worker, job: Job) -> None:
        page = visit(f"/jobs/{job.pk}/", by=ada)
        same = farmhands.stays(page)
        farmhands.status(page, "pending")
        farmhands.shows(page.locator(".why"), "the first free worker takes it")

        claimed = farm.claim_one(worker)
        farmhands.status(page, "in progress")
        expect(page.locator(".why")).to_have_count(0, timeout=SOON_MS)

        operations.heartbeat(worker, job.pk, claimed.lease, progress=0.4, detail="Painting <b>band</b> 4")
        farmhands.shows(page.locator(".job-state .detail"), "Painting <b>band</b> 4")
        expect(page.locator(".job-state progress")).to_have_attribute("value", "0.4")
        expect(page).to_have_title(re.compile(r"in progress 40 % · image #\d+"))

        farmhands.shows(page.locator("[data-key=a1] .stages"), "1 stage")
        expect(page.locator("[data-key=a1] .span .run")).to_be_attached()

        farmhands.write(worker, claimed, "Mixing colours\n", "<script>alert(1)</script>", " done")
        farmhands.output(page, "Mixing colours\n<script>alert(1)</script> done")

        farmhands.paint(worker, claimed, "red")
        image = page.locator(".picture img")
        expect(image).to_have_attribute("alt", re.compile("preview.png"), timeout=SOON_MS)
        expect(image).to_have_js_property("naturalWidth", 8, timeout=SOON_MS)  # the next one takes this one's place
        before = image.get_attribute("src")
        farmhands.paint(worker, claimed, "blue")
        expect(image).not_to_have_attribute("src", before or "", timeout=SOON_MS)
        expect(image).to_have_js_property("naturalWidth", 8, timeout=SOON_MS)

        farmhands.paint(worker, claimed, "blue", name="picture.png")
        farm.succeed(worker, claimed, {"seed": "<i>7</i>"})
        farmhands.status(page, "success")
        farmhands.shows(page.locator("[data-live=job-history]"), '"seed": "<i>7</i>"')
        expect(image).to_have_count(1, timeout=SOON_MS)  # beside the preview until the end of the job is read
        expect(image).to_have_attribute("alt", re.compile("picture.png"), timeout=SOON_MS)
        expect(page).to_have_title(re.compile("success"))
        expect(page.get_by_role("button", name="Retry")).to_be_visible()
        expect(page.get_by_role("button", name="Cancel")).to_be_hidden()
        assert same()

    def test_another_attempt_begins_with_an_empty_output(
        self, visit: Visit, ada: User, worker: Worker, job: Job
    ) -> None:
        claimed = farm.claim_one(worker)
        farmhands.write(worker, claimed, "first ", "attempt")
        page = visit(f"/jobs/{job.pk}/", by=ada)
        farmhands.output(page, "first attempt")
        farm.fail(worker, claimed, "Traceback\nValueError: <b>no paint</b>")
        farmhands.status(page, "pending")
        farmhands.shows(page.locator(".error summary"), "ValueError: <b>no paint</b>")
        farm.pass_time(job, 60)
        claimed = farm.claim_one(worker)
        farmhands.status(page, "in progress")
        farmhands.output(page, "")
        farmhands.write(worker, claimed, "second")
        farmhands.output(page, "second")
        first = page.locator("[data-key=a1]").get_by_role("link", name="Output as text").get_attribute("href")
        assert first == "output/1"
        assert page.request.get(f"/jobs/{job.pk}/{first}").text() == "first attempt"

    def test_a_replaced_job_shows_what_it_is_to_do_now_and_one_behind_it_for_which_it_waits(
        self, visit: Visit, ada: User, worker: Worker
    ) -> None:
        def push(prompt: str) -> Job:
            return operations.submit("image", {"prompt": prompt}, owner=ada, unique_key="bird", on_conflict="after")

        job = push("A heron")
        page = visit(f"/jobs/{job.pk}/", by=ada)
        same = farmhands.stays(page)
        farmhands.shows(page.locator(".lead"), "A heron")
        push("A crane")
        farmhands.shows(page.locator(".lead"), "A crane")
        farmhands.shows(page.locator("[data-replaced]"), "by a newer one of its key")
        assert same()
        farm.claim_one(worker)
        follower = push("A stork")
        page = visit(f"/jobs/{follower.pk}/", by=ada)
        expect(page.locator(".why").get_by_role("link", name=f"job {job.pk}")).to_be_visible(timeout=SOON_MS)

    def test_why_it_waits_follows_its_queue(self, visit: Visit, ada: User, worker: Worker, job: Job) -> None:
        operations.pause("image")
        page = visit(f"/jobs/{job.pk}/", by=ada)
        farmhands.shows(page.locator(".why"), "The queue image has been paused since")
        operations.resume("image")
        expect(page.locator(".why")).not_to_contain_text("paused", timeout=SOON_MS)
        operations.set_ceiling("image", 0)
        farmhands.shows(page.locator(".why"), "is full")

    def test_a_cancel_after_the_session_has_ended_says_that_it_did_nothing(
        self, visit: Visit, ada: User, job: Job
    ) -> None:
        page = visit(f"/jobs/{job.pk}/", by=ada)
        page.context.clear_cookies(name="sessionid")
        page.get_by_role("button", name="Cancel", exact=True).click()
        page.get_by_role("dialog").get_by_role("button", name="Cancel the job").click()
        farmhands.shows(page.locator("#toasts"), "You are logged out")
        assert farm.status(job) == "pending"

    def test_a_wait_that_has_just_begun_is_as_long_as_it_was_asked_for(self, visit: Visit, ada: User) -> None:
        in_ten_hours = farm.now() + timedelta(hours=10)
        later = operations.submit("image", {"prompt": "Dawn"}, owner=ada, run_at=in_ten_hours)
        farmhands.shows(visit(f"/jobs/{later.pk}/", by=ada).locator(".why"), "it may start in 10 hours")

    def test_shows_since_when_no_worker_is_there_as_all_times(
        self, visit: Visit, ada: User, worker: Worker, job: Job
    ) -> None:
        seen = farm.now() - timedelta(hours=1)
        Worker.objects.filter(pk=worker.pk).update(last_seen_at=seen)
        last = visit(f"/jobs/{job.pk}/", by=ada).locator(".why time")
        expect(last).to_have_attribute("datetime", f"{seen:%Y-%m-%dT%H:%M:%SZ}", timeout=SOON_MS)
        expect(last).not_to_contain_text("UTC")

    def test_the_output_follows_its_end_unless_told_otherwise(
        self, visit: Visit, ada: User, worker: Worker, job: Job
    ) -> None:
        claimed = farm.claim_one(worker)
        farmhands.write(worker, claimed, *(f"line {n}\n" for n in range(80)))
        page = visit(f"/jobs/{job.pk}/", by=ada)
        at_end = "({ scrollHeight, scrollTop, clientHeight }) => scrollHeight - scrollTop - clientHeight < 24"
        output = page.locator(".output")
        assert output.evaluate(at_end)
        farmhands.write(worker, claimed, *(f"line {n}\n" for n in range(80, 90)), first=80)
        farmhands.shows(page.locator(".output"), "line 89")
        assert output.evaluate(at_end)
        page.get_by_label("Follow").uncheck()
        farmhands.write(worker, claimed, *(f"line {n}\n" for n in range(90, 100)), first=90)
        farmhands.shows(page.locator(".output"), "line 99")
        assert not output.evaluate(at_end)
        page.get_by_label("Follow").check()
        assert output.evaluate(at_end)

    def test_two_browsers_watch_one_job(self, visit: Visit, ada: User, worker: Worker, job: Job) -> None:
        claimed = farm.claim_one(worker)
        farmhands.write(worker, claimed, "early ")
        first, second = visit(f"/jobs/{job.pk}/", by=ada), visit(f"/jobs/{job.pk}/", by=ada)
        farmhands.write(worker, claimed, "late", first=1)
        for page in (first, second):
            farmhands.output(page, "early late")
        second.get_by_role("button", name="Cancel").click()
        second.get_by_role("button", name="Cancel the job").click()
        for page in (first, second):
            farmhands.status(page, "canceled")


class TestWhyItWaits:
    def test_a_button_for_what_changes_it_goes_with_the_reason(self, visit: Visit, ada: User, worker: Worker) -> None:
        job = operations.submit("image", {}, owner=ada, run_at=farm.now() + timedelta(hours=1))
        page = visit(f"/jobs/{job.pk}/", by=ada)
        same = farmhands.stays(page)
        farmhands.shows(page.locator(".why"), "It is not due yet")
        expect(page.get_by_role("button", name="Resume the queue")).to_have_count(0)
        page.get_by_role("button", name="Run it now").click()
        farmhands.shows(page.locator(".why"), "the first free worker takes it")
        expect(page.get_by_role("button", name="Run it now")).to_be_hidden(timeout=SOON_MS)
        assert same()


class TestTheFormOfASignal:
    def test_is_there_as_long_as_the_job_waits_and_keeps_what_is_typed(
        self, visit: Visit, ada: User, worker: Worker, job: Job
    ) -> None:
        schema = {
            "properties": {"verdict": {"enum": ["yes", "no"]}, "note": {"type": "string"}},
            "required": ["verdict"],
        }
        wait = operations.Wait(signal="approved", schema=schema)
        page = visit(f"/jobs/{job.pk}/", by=ada)
        same = farmhands.stays(page)
        form, note = page.get_by_role("form", name="Signal"), page.get_by_label("note")
        expect(form).to_be_hidden()
        for priority in (-5, -7):
            claimed = farm.claim_one(worker)
            operations.write_output(worker, job.pk, claimed.lease, seq=0, text="Look at this")
            finished = operations.Finished(job_id=job.pk, lease=claimed.lease, outcome="suspended", wait=wait)
            operations.finish(worker, [finished])
            expect(form).to_be_visible(timeout=SOON_MS)
            expect(note).to_have_value("")
            page.get_by_label("verdict").select_option("no")
            note.fill("half a sent")
            operations.change_priority(job.pk, priority, by=ada)
            operations.signal(job.pk, "another", by=ada)
            farmhands.shows(page.locator("[data-live=job-facts]"), f"{priority}")
            note.press_sequentially("ence")
            expect(note).to_have_value("half a sentence")
            expect(page.get_by_label("verdict")).to_have_value("1")
            page.get_by_role("button", name="Send it").click()
            farmhands.shows(page.locator("#toasts"), "The signal approved was sent.")
            expect(form).to_be_hidden(timeout=SOON_MS)
        assert farm.claim_one(worker).signal.data == {"verdict": "no", "note": "half a sentence"}  # type: ignore[union-attr]
        assert same()


class TestCanceling:
    def test_in_the_page_while_it_runs(self, visit: Visit, ada: User, worker: Worker, job: Job) -> None:
        claimed = farm.claim_one(worker)
        page = visit(f"/jobs/{job.pk}/", by=ada)
        same = farmhands.stays(page)
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name="Cancel the job").click()
        farmhands.shows(page.locator("#toasts"), "Canceled while it ran: its worker is notified")
        farmhands.status(page, "canceled")
        expect(page.get_by_role("button", name="Retry")).to_be_visible()
        assert same()
        assert farm.succeed(worker, claimed) != "success"

    def test_in_the_page_without_scripts(self, visit: Visit, ada: User, worker: Worker, job: Job) -> None:
        page = visit(f"/jobs/{job.pk}/", by=ada, java_script_enabled=False)
        page.get_by_role("button", name="Cancel").click()
        assert "Canceled before it started" in page.inner_text(".messages")
        assert page.inner_text(".job-state .badge") == "canceled"


class TestReconnecting:
    def test_shows_the_end_that_came_while_the_server_was_away(
        self, visit: Visit, server: Server, ada: User, worker: Worker, job: Job
    ) -> None:
        claimed = farm.claim_one(worker)
        farmhands.write(worker, claimed, "before; ")
        page = visit(f"/jobs/{job.pk}/", by=ada)
        same = farmhands.stays(page)
        farmhands.output(page, "before; ")
        server.stop()
        page.wait_for_selector("html[data-live=off]", state="attached")
        farmhands.write(worker, claimed, "meanwhile; ", "after", first=1)
        farm.succeed(worker, claimed, {"ok": True})
        server.start()
        farmhands.status(page, "success")
        farmhands.output(page, "before; meanwhile; after")
        farmhands.shows(page.locator("[data-live=job-history]"), '"ok": true')
        assert same()


class TestSharing:
    def test_a_stranger_watches_live_until_the_link_is_removed(
        self, visit: Visit, server: Server, ada: User, worker: Worker, job: Job
    ) -> None:
        page = visit(f"/jobs/{job.pk}/", by=ada)
        page.get_by_role("button", name="Create a link").click()
        link = page.inner_text("#share-url").strip()
        claimed = farm.claim_one(worker)
        farmhands.paint(worker, claimed, "red")
        stranger = visit(link.removeprefix(server.url))
        operations.heartbeat(worker, job.pk, claimed.lease, progress=0.5, detail="Half of it")
        farmhands.write(worker, claimed, "for everybody")
        farmhands.shows(stranger.locator(".job-state"), "Half of it")
        farmhands.output(stranger, "for everybody")
        expect(stranger.locator(".picture img")).to_have_js_property("naturalWidth", 8, timeout=SOON_MS)
        page.get_by_role("button", name="Remove the link").click()
        expect(stranger.locator(".gone")).to_be_visible(timeout=SOON_MS)
        operations.heartbeat(worker, job.pk, claimed.lease, progress=0.9, detail="Nobody else's business")
        farmhands.shows(page.locator(".job-state"), "Nobody else's business")
        assert "Half of it" not in stranger.content()
        assert "for everybody" not in stranger.content()
        assert "Nobody else" not in stranger.content()

    def test_whoever_leaves_the_group_sees_no_more(
        self, visit: Visit, server: Server, ada: User, worker: Worker
    ) -> None:
        group = Group.objects.create(name="studio")
        bob = farm.user("bob", groups=[group])
        ada.groups.add(group)
        job = operations.submit("image", {"prompt": "Ours"}, owner=ada, group=group)
        page = visit(f"/jobs/{job.pk}/", by=bob)
        farmhands.status(page, "pending")
        bob.groups.clear()
        expect(page.locator(".gone")).to_be_visible(timeout=SOON_MS)
        expect(page.locator(".job-state")).to_have_count(0)


class TestARealWorker:
    def test_paints_a_picture_that_is_submitted_and_seen_in_the_browser(
        self, visit: Visit, server: Server, ada: User, tmp_path: Path
    ) -> None:
        _, key = operations.create_worker("demonstrator", queues=["image"])
        page = visit("/jobs/new/?kind=image", by=ada)
        page.get_by_label("What should it paint?").fill("An owl reading by candlelight")
        page.get_by_role("button", name="Paint").click()
        farmhands.status(page, "pending")
        same = farmhands.stays(page)
        page.evaluate(
            "window.bars = []; document.addEventListener('live:updated', () => {"
            " const bar = document.querySelector('.job-state progress'); if (bar) window.bars.push(bar.value) })"
        )
        with farmhands.worker_process(server.url, key, tmp_path / "worker.log", "--handler", WATCHED):
            expect(page.locator(".job-state .badge")).to_have_text("success", timeout=90_000)
        picture = page.locator(".picture img")
        expect(picture).to_have_attribute("alt", re.compile("picture.png"), timeout=SOON_MS)
        expect(picture).not_to_have_js_property("naturalWidth", 0, timeout=SOON_MS)
        assert picture.evaluate("(image) => image.naturalWidth") >= 256
        bars = page.evaluate("window.bars")
        assert bars == sorted(bars)
        assert len(set(bars)) >= 3
        assert same()
