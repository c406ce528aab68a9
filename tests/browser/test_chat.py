"""The chat in two and three browsers, with real workers: answered, killed in mid-answer, limited, whose is whose."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from django.contrib.auth.models import Group, User
from playwright.sync_api import Locator, Page, expect

from accounts import operations as accounts
from examples.chat import operations as chat
from examples.chat.models import Answer, Message
from jobs import operations as jobs
from tests import farm
from tests.accounts.integration.people import solution
from tests.browser import writers
from tests.browser.conftest import Visit
from tests.browser.farmhands import SOON_MS
from tests.servers import Server

pytestmark = pytest.mark.django_db(transaction=True)
ENVIRONMENT = {"JOBFARM_LEASE_S": "3", "JOBFARM_HEARTBEAT_S": "1"}  # a silent worker is noticed soon


@pytest.fixture
def room(server: Server) -> Group:
    return accounts.create_group("friends", by=farm.user("ada"))


@pytest.fixture
def ada(room: Group) -> User:
    return User.objects.get(username="ada")


class Writer:
    """A real worker in a process of its own, which writes what it is dictated (tests/browser/writers.py)."""

    def __init__(self, process: "subprocess.Popen[bytes]", dictated: Path) -> None:
        self.process = process
        self._dictated = dictated

    def begins_anew(self) -> None:
        """Its next answer is empty so far."""
        self._dictated.write_text("")

    def goes_on(self, *pages: Page) -> None:
        """It writes, and then more; each time all of these pages show it."""
        for words in ("The lamp turns", " and is seen from afar"):
            self._write(words)
            for page in pages:
                text = answer(page).locator(".writing .message-text")
                expect(text).to_contain_text(self._dictated.read_text(), timeout=SOON_MS)

    def ends(self) -> None:
        """Its answer is whole."""
        self._write(writers.END)

    def _write(self, text: str) -> None:
        with self._dictated.open("a") as file:
            file.write(text)


@contextmanager
def working(server: Server, key: str, log: Path) -> Iterator[Writer]:
    """A worker that answers; killed at the end, if it still lives."""
    command = [sys.executable, "-m", "jobfarm_worker", "--url", server.url, "--key", key]
    command += ["--handler", "chat=tests.browser.writers:write"]
    dictated = log.with_suffix(".dictated")
    dictated.write_text("")
    with log.open("wb") as file:
        environment = {**os.environ, writers.DICTATED: str(dictated)}
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        try:
            yield Writer(process, dictated)
        finally:
            process.kill()
            process.wait(timeout=30)


def ask(page: Page, text: str) -> None:
    """Write a question and send it by the keyboard."""
    page.get_by_label("Your message").fill(text)
    page.keyboard.press("Enter")
    expect(page.get_by_label("Your message")).to_have_value("", timeout=SOON_MS)


def answer(page: Page) -> Locator:
    """The newest answer."""
    return page.locator(".message.by-assistant").last


def stands(page: Page, words: str) -> None:
    """Wait until the newest answer stands so."""
    expect(answer(page).locator(".badge")).to_have_text(words, timeout=SOON_MS)


# What comes before the page has heard of the scrolling moves it to the end again.
FURTHER_UP = """async log => {
    while (log.scrollTop !== 100) {
        log.scrollTop = 100;
        await new Promise(done => log.addEventListener("scroll", done, {once: true}));
    }
}"""


class TestReading:
    def test_further_up_is_not_moved_by_a_new_message_and_a_button_leads_to_it(
        self, visit: Visit, room: Group, ada: User
    ) -> None:
        for number in range(40):
            Message.objects.create(group=room, author=ada, role="user", text=f"message {number}")
        page = visit(f"/chat/{room.pk}/", by=ada)
        log, button = page.locator("#log"), page.get_by_role("button", name="New messages")
        log.evaluate(FURTHER_UP)
        expect(button).to_be_hidden()
        chat.post(room.pk, "the newest", by=ada, key="k", asks=False)
        expect(button).to_be_visible(timeout=SOON_MS)
        assert log.evaluate("log => log.scrollTop") == 100
        button.click()
        expect(button).to_be_hidden()
        expect(page.get_by_text("the newest")).to_be_in_viewport()
        expect(page.get_by_role("button", name="Send")).to_be_in_viewport()


class TestWritingOn:
    def test_after_the_session_has_ended_says_so_and_keeps_what_was_written(
        self, visit: Visit, room: Group, ada: User
    ) -> None:
        page = visit(f"/chat/{room.pk}/", by=ada)
        page.context.clear_cookies(name="sessionid")
        page.get_by_label("Your message").fill("Is anybody there?")
        page.get_by_role("button", name="Send").click()
        expect(page.locator("#toasts")).to_contain_text("You are logged out", timeout=SOON_MS)
        expect(page.get_by_label("Your message")).to_have_value("Is anybody there?")


class TestTwoInARoom:
    def test_watch_an_answer_being_written_and_one_whose_worker_is_killed(
        self, visit: Visit, server: Server, room: Group, ada: User, tmp_path: Path
    ) -> None:
        bob = farm.user("bob", groups=[room])
        first, second = visit(f"/chat/{room.pk}/", by=ada), visit(f"/chat/{room.pk}/", by=bob)
        _, key = jobs.create_worker("mo", queues=["chat"])
        ask(first, "How do lighthouses work?")
        for page in (first, second):
            expect(page.locator(".message").first).to_contain_text("How do lighthouses work?", timeout=SOON_MS)
            stands(page, "pending")
            expect(answer(page)).to_contain_text("No live worker serves the queue chat", timeout=SOON_MS)
        expect(second.get_by_role("button", name="Cancel")).to_be_hidden()

        with working(server, key, tmp_path / "mo.log") as mo:
            for page in (first, second):
                stands(page, "being written")
                expect(page.locator("[data-live=chat-workers]")).to_contain_text("mo", timeout=SOON_MS)
            mo.goes_on(first, second)
            mo.ends()
            for page in (first, second):
                stands(page, "answered")
            written = Message.objects.get(role="assistant").text
            for page in (first, second):
                expect(answer(page).locator(".message-text")).to_have_text(written)
                expect(page.locator(".writing")).to_have_count(0)
                expect(answer(page)).to_contain_text("demonstrator, on mo")

            mo.begins_anew()
            ask(first, "And in a storm?")
            mo.goes_on(first, second)
            mo.process.kill()
        farm.until(lambda: jobs.sweep().taken_back, what="the lease's end")
        for page in (first, second):
            stands(page, "timed out")
            expect(answer(page)).to_contain_text("mo stopped responding or took too long")
            expect(answer(page)).not_to_contain_text("The lamp turns")
        expect(answer(second).get_by_role("button", name="Try again")).to_be_hidden()

        answer(first).get_by_role("button", name="Try again").click()
        stands(second, "pending")
        with working(server, key, tmp_path / "mo2.log") as mo:
            mo.goes_on(second)
            answer(first).get_by_role("button", name="Stop").click()
            for page in (first, second):
                stands(page, "canceled")
                expect(answer(page)).to_contain_text("The lamp turns and is seen from afar")
                expect(answer(page)).to_contain_text("Stopped here.")
        assert list(Answer.objects.order_by("pk").values_list("state", flat=True)) == ["finished", "canceled"]


class TestThreeInTheirRooms:
    def test_a_members_worker_answers_in_their_groups_alone_and_a_guest_is_limited(
        self, visit: Visit, server: Server, room: Group, ada: User, tmp_path: Path
    ) -> None:
        elsewhere = Group.objects.create(name="others")
        eve = visit(f"/chat/{elsewhere.pk}/", by=farm.user("eve", groups=[elsewhere]))
        ask(eve, "Is anybody there?")
        maker = visit(f"/chat/{room.pk}/", by=ada)
        watcher = visit(f"/chat/{room.pk}/", by=ada)
        maker.get_by_text("Connect your own worker").click()
        maker.get_by_label("Name", exact=True).fill("laptop")
        maker.get_by_role("button", name="Create the worker").click()
        command = maker.locator("#command").inner_text()
        key = re.search(r"jfw_\S+", command)
        assert key is not None
        maker.get_by_role("link", name="Back to friends").click()

        with working(server, key[0], tmp_path / "laptop.log") as laptop:
            served = watcher.locator("[data-live=chat-workers]")
            expect(served).to_contain_text("laptop of ada", timeout=SOON_MS, use_inner_text=True)
            guest = visit(f"/accounts/join/{accounts.invitation(room, by=ada)}/")
            self._come_in(guest)
            guest.goto(f"/chat/{room.pk}/")
            ask(guest, "May I?")
            laptop.goes_on(watcher)
            stands(eve, "pending")
            guest.get_by_label("Ask the assistant").uncheck()
            for text in ("One", "Two"):
                ask(guest, text)
            guest.get_by_label("Your message").fill("Three")
            guest.keyboard.press("Enter")
            expect(guest.locator(".toast")).to_contain_text("You are sending messages too fast.", timeout=SOON_MS)
            expect(guest.get_by_label("Your message")).to_have_value("Three")
            expect(watcher.locator(".message").last).to_contain_text("Two", timeout=SOON_MS)
            assert not Message.objects.filter(text="Three").exists()
            expect(guest.get_by_text("Connect your own worker")).to_have_count(0)
        assert Answer.objects.get(group=elsewhere).state == "waiting"
        assert Answer.objects.get(group=room).worker_name == "laptop"

    def _come_in(self, page: Page) -> None:
        page.get_by_role("link", name="As a guest").click()
        captcha = page.locator("[name=captcha]").input_value()
        page.get_by_label("Letters in the picture").fill(solution(captcha))
        page.get_by_role("button", name="Continue").click()
        page.get_by_role("button", name=re.compile("Join as guest-")).click()
        expect(page.get_by_role("heading", name="friends", level=1)).to_be_visible()


class TestARoom:
    def test_works_without_scripts_and_fits_a_phone(self, visit: Visit, server: Server, room: Group, ada: User) -> None:
        plain = visit(f"/chat/{room.pk}/", by=ada, java_script_enabled=False)
        plain.get_by_label("Your message").fill("Why?")
        plain.get_by_role("button", name="Send").click()
        expect(plain.locator(".message").first).to_contain_text("Why?")
        plain.get_by_role("button", name="Cancel").click()
        expect(plain.get_by_text("Canceled before an answer was started.")).to_be_visible()
        plain.get_by_role("button", name="Try again").click()
        expect(answer(plain).locator(".badge")).to_have_text("pending")

        room.user_set.add(User.objects.create_user("m" * 150))
        accounts.create_group("W" * 60, by=ada)
        Message.objects.create(group=room, author=ada, role="user", text="x" * 4000)
        page = visit(f"/chat/{room.pk}/", by=ada, viewport={"width": 390, "height": 844})
        for path in (f"/chat/{room.pk}/", "/chat/"):
            page.goto(path)
            page.wait_for_selector("html[data-live=on]", state="attached")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path

    def test_keeps_log_and_composer_in_sight_above_a_phones_keyboard(
        self, visit: Visit, room: Group, ada: User
    ) -> None:
        for number in range(40):
            Message.objects.create(group=room, author=ada, role="user", text=f"message {number}")
        page = visit(f"/chat/{room.pk}/", by=ada, viewport={"width": 390, "height": 844})
        page.get_by_label("Your message").click()
        page.set_viewport_size({"width": 390, "height": 440})
        expect(page.get_by_text("message 39", exact=True)).to_be_in_viewport(ratio=1, timeout=SOON_MS)
        expect(page.get_by_role("button", name="Send")).to_be_in_viewport(ratio=1)
        log, composer = page.locator("#log").bounding_box(), page.locator("#composer").bounding_box()
        assert log is not None
        assert composer is not None
        assert log["y"] + log["height"] <= composer["y"], "the composer covers no message"
