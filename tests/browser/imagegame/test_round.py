"""A whole game in three browsers with a worker of its own process; and a picture that comes too late."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from examples.imagegame import operations
from jobs import operations as jobs
from jobs.errors import LeaseLost
from tests import farm
from tests.browser import farmhands
from tests.browser.conftest import Visit
from tests.browser.farmhands import SOON_MS
from tests.imagegame.integration import players
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)

PAINTED_MS = 25_000  # a worker process starts, and paints, on two cores that are busy


@pytest.fixture
def painter(server: Server, tmp_path: Path) -> Iterator[None]:
    """A worker in a process of its own, as anybody may connect it."""
    jobs.sync()
    _, key = jobs.create_worker("painter", queues=["image"])
    handler = "image=tests.browser.imagegame.painters:paint"
    with farmhands.worker_process(server.url, key, tmp_path / "painter.log", "--handler", handler):
        yield


def _at(pages: list[Page], stage: str) -> None:
    """Wait until every browser shows this stage."""
    for page in pages:
        expect(page.locator(f"[data-stage={stage}]")).to_be_attached(timeout=SOON_MS)


def _others(pages: list[Page]) -> list[Page]:
    """Those who are asked about the picture on the table."""
    return [page for page in pages if not page.get_by_text("It is yours.").count()]


class TestAGame:
    def test_of_three_is_played_from_the_lobby_to_the_end(self, visit: Visit, painter: None) -> None:
        people = [farm.user(name) for name in ("ada", "grace", "linus")]
        host, second = visit("/game/", by=people[0]), visit("/game/", by=people[1])
        third = visit("/game/", by=people[2], viewport={"width": 390, "height": 844})
        pages = [host, second, third]
        same = farmhands.stays(second)

        host.get_by_label("Theme").fill("Animals with odd jobs")
        host.get_by_role("button", name="Open the game").click()
        expect(host.get_by_role("button", name="Begin")).to_be_disabled()
        second.get_by_role("button", name="Join Animals with odd jobs").click(timeout=SOON_MS)  # it came by itself
        assert not same()
        third.goto(host.url)
        third.get_by_role("button", name="Join the game").click()
        expect(host.locator(".players li")).to_have_count(3, timeout=SOON_MS)
        host.get_by_role("button", name="Begin").click()

        _at(pages, "painting")
        for page, prompt in zip(pages, players.PROMPTS, strict=False):
            page.get_by_label("What should be painted?").fill(prompt)
            page.get_by_role("button", name="Paint", exact=True).click()
        for page in pages:
            play = page.get_by_role("button", name="Play this picture")
            play.click(timeout=PAINTED_MS)
        _at(pages, "naming")

        for number, prompt in enumerate(players.PROMPTS[:3]):
            self._play_picture(pages, number, prompt)
        _at(pages, "over")
        for page in pages:
            expect(page.locator(".recap img")).to_have_count(3)
            expect(page.locator(".recap img").first).to_have_js_property("naturalWidth", 96, timeout=SOON_MS)
        # Of each picture one guesser knew the truth and one fell for the other's title; see _play_picture.
        assert sum(int(points.split()[0]) for points in host.locator(".points").all_inner_texts()) == 3 * (
            1000 + 200 + 500
        )

        host.get_by_role("button", name="Play again").click()
        farmhands.shows(second.locator(".now"), "Join the next game")
        second.get_by_role("button", name="Join the next game").click()
        expect(host.locator(".players li")).to_have_count(2, timeout=SOON_MS)

    def _play_picture(self, pages: list[Page], number: int, prompt: str) -> None:
        """Two think of titles; one of them knows the truth, the other falls for the first one's title."""
        _at(pages, "naming")
        for page in pages:
            farmhands.shows(page.locator(".now h2"), f"Picture {number + 1} of 3")
            expect(page.locator(".on-table img")).to_have_js_property("naturalWidth", 96, timeout=SOON_MS)
        knows, falls = _others(pages)
        watched = next(page for page in pages if page not in (knows, falls))
        stays = farmhands.stays(watched)
        falls.get_by_label("Make up a title").fill(players.TITLES[number + 3])
        knows.get_by_label("Make up a title").fill(players.TITLES[number])
        knows.get_by_role("button", name="Submit").click()
        expect(watched.locator(".players .done")).to_have_count(1, timeout=SOON_MS)
        farmhands.shows(watched.locator(".now"), "Waiting for")
        expect(falls.locator(".players .done")).to_have_count(1, timeout=SOON_MS)
        expect(falls.get_by_label("Make up a title")).to_have_value(players.TITLES[number + 3])
        falls.get_by_role("button", name="Submit").click()
        _at(pages, "guessing")
        knows.get_by_role("button", name=prompt).click()
        falls.get_by_role("button", name=players.TITLES[number]).click()
        _at(pages, "reveal")
        for page in pages:
            farmhands.shows(page.locator(".revealed .true"), prompt)
        assert stays(), "who only watches sees every move without a reload"
        expect(pages[0].locator(".countdown")).to_have_text(re.compile(r"0:[0-3]\d"))
        pages[0].get_by_role("button", name=re.compile("Next picture|To the end")).click()


class TestAPicture:
    @pytest.fixture
    def ada(self, server: Server) -> User:
        """Who has it painted."""
        jobs.sync()
        return farm.user("ada")

    def test_that_comes_late_stays_out(self, visit: Visit, ada: User) -> None:
        worker = players.painter()
        submission = operations.start("a fox", by=ada)
        page = visit("/game/gallery/", by=ada)
        steps = page.locator(".steps [aria-current=step]")
        expect(steps).to_have_text("Starting")
        claimed = farm.claim_one(worker)
        expect(steps).to_have_text("Checking the prompt", timeout=SOON_MS)
        jobs.heartbeat(worker, claimed.id, claimed.lease, progress=0.5, detail="Painting band 12 of 24")
        expect(steps).to_have_text("Generating", timeout=SOON_MS)
        jobs.heartbeat(worker, claimed.id, claimed.lease, progress=0.97)
        expect(steps).to_have_text("Saving", timeout=SOON_MS)

        farm.pass_time(claimed, 31)
        assert jobs.sweep().taken_back == 1
        farmhands.shows(page.locator(".submission"), "Timed out: it was not finished within 30 s.")
        farmhands.shows(page.locator(".health"), "0 of 1 succeeded")
        with pytest.raises(LeaseLost):
            players.paint(worker, claimed)
        assert isinstance(farm.succeed(worker, claimed, {"file": "picture.png"}), LeaseLost)
        submission.refresh_from_db()
        assert (submission.state, submission.file) == ("failed", "")
        page.reload()
        farmhands.shows(page.locator(".submission"), "Timed out")
        expect(page.locator(".gallery img")).to_have_count(0)
