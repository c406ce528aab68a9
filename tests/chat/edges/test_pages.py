"""The pages of the chat over HTTP: who gets in, what they show, what comes of their buttons."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from accounts import operations as accounts
from examples.chat import operations
from examples.chat.models import Answer, Message
from jobs import operations as jobs
from jobs.models import Worker
from ratelimits import limits as declared_limits, operations as ratelimits
from tests import farm
from tests.accounts.integration.people import guest as new_guest
from tests.chat.integration import people

pytestmark = pytest.mark.django_db
SCRIPT = "<script>alert(1)</script>"


def browser(user: User) -> Client:
    """A browser of somebody who is logged in."""
    client = Client()
    client.force_login(user)
    return client


def shown(client: Client, path: str) -> str:
    """A page's HTML, its lines in one."""
    response = client.get(path)
    assert response.status_code == 200
    return re.sub(r"\s+", " ", response.content.decode())


def post_text(client: Client, path: str, **fields: Any) -> str:
    """What comes of a button without scripts: the sentence at the head of the page that follows."""
    response = client.post(path, fields, follow=True)
    assert response.redirect_chain, response.content
    return " ".join(str(message) for message in response.context["messages"])


def post_json(client: Client, path: str, **fields: Any) -> dict[str, Any]:
    """What comes of a button with scripts."""
    response = client.post(path, fields, headers={"HX-Request": "true"})
    assert response.status_code == 204
    answer: dict[str, Any] = json.loads(response.headers["HX-Trigger"])["chat:result"]
    return answer


@pytest.fixture
def room() -> Group:
    return Group.objects.create(name="friends")


@pytest.fixture
def ada(room: Group) -> User:
    return farm.user("ada", groups=[room])


@pytest.fixture
def client(ada: User) -> Client:
    return browser(ada)


class TestRooms:
    def test_are_listed_with_what_was_said_last(self, client: Client, ada: User, room: Group) -> None:
        assert "No messages yet" in shown(client, "/chat/")
        people.say(room, ada, f"Hello {SCRIPT}")
        page = shown(client, "/chat/")
        assert f'<a href="/chat/{room.pk}/">friends</a>' in page
        assert "Hello &lt;script&gt;" in page
        assert SCRIPT not in page

    def test_may_be_made(self, client: Client, ada: User) -> None:
        response = client.post("/chat/", {"name": "book club"})
        group = Group.objects.get(name="book club")
        assert (response.status_code, response.headers["Location"]) == (302, f"/chat/{group.pk}/")
        assert accounts.members(group) == [ada]

    def test_with_a_name_that_is_taken_are_not_made(self, client: Client) -> None:
        response = client.post("/chat/", {"name": "friends"})
        assert response.status_code == 422
        assert "There is already a group called friends" in response.content.decode()

    def test_are_none_for_who_is_in_no_group(self) -> None:
        assert "No rooms yet" in shown(browser(farm.user("eve")), "/chat/")


class TestARoom:
    def test_is_for_its_members(self, room: Group) -> None:
        stranger = browser(farm.user("eve"))
        for path in ("", "say/", "cancel/", "again/", "remove/", "instructions/", "worker/"):
            address = f"/chat/{room.pk}/{path}"
            ask = stranger.post if path else stranger.get
            assert ask(address, {"text": "Hi", "answer": "1", "message": "1"}).status_code == 404
            visitor = Client().post(address) if path else Client().get(address)
            assert visitor.headers["Location"].startswith("/accounts/login/")
        assert (Message.objects.count(), Worker.objects.count()) == (0, 0)

    def test_takes_no_action_by_a_link(self, client: Client, room: Group) -> None:
        for path in ("say", "cancel", "again", "remove", "instructions", "worker"):
            assert client.get(f"/chat/{room.pk}/{path}/").status_code == 405

    @pytest.mark.parametrize("number", ["0", "99999999999999999999", "9223372036854775807"])
    def test_that_there_is_not_is_not_found(self, client: Client, number: str) -> None:
        assert client.get(f"/chat/{number}/").status_code == 404

    def test_shows_what_people_write_as_text(self, client: Client, ada: User, room: Group) -> None:
        operations.instruct(room.pk, f"Be {SCRIPT}", by=ada)
        people.ask(room, ada, f"Why {SCRIPT}")
        worker = people.worker(f"w{SCRIPT}")
        claimed = farm.claim_one(worker)
        assert SCRIPT not in shown(client, f"/chat/{room.pk}/")
        farm.succeed(worker, claimed, {"text": f"So {SCRIPT}"})
        page = shown(client, f"/chat/{room.pk}/")
        assert SCRIPT not in page
        assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 5

    def test_shows_every_state_in_words(self, client: Client, ada: User, room: Group) -> None:
        answer, worker = people.ask(room, ada), people.worker("mo")
        address = f"/chat/{room.pk}/"
        page = shown(client, address)
        assert "Waiting for a worker." in page
        assert "Why it is not running" in page  # the reasons, as the farm knows them
        assert 'form="chat-cancel"' in page
        claimed = farm.claim_one(worker)
        assert "mo is writing." in shown(client, address)
        farm.fail(worker, claimed, "Traceback\nMemoryError: no room")
        page = shown(client, address)
        assert "mo failed: MemoryError: no room" in page
        assert "Next attempt at <time" in page
        farm.pass_time(people.job_of(answer), 60)
        claimed = farm.claim_one(worker)
        assert "mo is writing, attempt 2." in shown(client, address)
        farm.time_out(claimed)
        page = shown(client, address)
        assert "stopped responding or took too long" in page
        assert 'form="chat-again"' in page
        assert 'form="chat-cancel" name' not in page
        operations.ask_again(room.pk, answer.pk, by=ada, key="k")
        operations.cancel(room.pk, answer.pk, by=ada)
        assert "The question was canceled." in shown(client, address)
        operations.ask_again(room.pk, answer.pk, by=ada, key="k")
        farm.fail(worker, farm.claim_one(worker), "no such model", retryable=False)
        assert "It could not be answered: no such model" in shown(client, address)
        operations.ask_again(room.pk, answer.pk, by=ada, key="k")
        farm.succeed(worker, farm.claim_one(worker), {"text": "At last."})
        page = shown(client, address)
        assert "At last." in page
        assert "on mo, for ada" in page

    def test_shows_a_stopped_answer_and_offers_another_beside_the_newest_alone(
        self, client: Client, ada: User, room: Group
    ) -> None:
        answer, worker = people.ask(room, ada, "Why?"), people.worker()
        claimed = farm.claim_one(worker)
        jobs.write_output(worker, claimed.id, claimed.lease, seq=0, text="**Half**")
        operations.cancel(room.pk, answer.pk, by=ada)
        page = shown(client, f"/chat/{room.pk}/")
        assert ("<strong>Half</strong>" in page, "Stopped here." in page) == (True, True)
        operations.ask_again(room.pk, answer.pk, by=ada, key="k")
        assert 'form="chat-again"' not in shown(client, f"/chat/{room.pk}/")
        farm.succeed(worker, farm.claim_one(worker), {"text": "All."})
        page = shown(client, f"/chat/{room.pk}/")
        assert "Another answer to “Why?”" in page
        newest = answer.message.question.replies.latest("pk") if answer.message.question else None
        offered = re.findall(r'form="chat-again" name="answer" value="(\d+)"', page)
        assert newest is not None
        assert offered == [str(newest.pk)]

    def test_says_when_an_answer_starts_that_waits_for_its_tokens(self, client: Client, ada: User, room: Group) -> None:
        ratelimits.limit("chat completion tokens", count=600_000, reserve=True)  # a minute of debt
        answer = people.ask(room, ada)
        assert answer.starts_at is not None
        moment = f'<time datetime="{answer.starts_at:%Y-%m-%dT%H:%M:%S}'
        assert f"it starts at {moment}" in shown(client, f"/chat/{room.pk}/")

    def test_shows_what_an_answer_holds_so_far_and_nothing_of_an_attempt_that_failed(
        self, client: Client, ada: User, room: Group
    ) -> None:
        people.ask(room, ada)
        worker = people.worker()
        claimed = farm.claim_one(worker)
        jobs.write_output(worker, claimed.id, claimed.lease, seq=0, text="Half of it")
        assert "Half of it</div>" in shown(client, f"/chat/{room.pk}/")
        farm.fail(worker, claimed)
        assert "Half of it" not in shown(client, f"/chat/{room.pk}/")

    def test_asks_the_database_as_often_for_many_messages_as_for_few(
        self, client: Client, ada: User, room: Group
    ) -> None:
        worker = people.worker()
        counts = []
        for number in (2, 12):
            for _ in range(number):
                people.ask(room, ada)
                farm.succeed(worker, farm.claim_one(worker), {"text": "So."})
            with CaptureQueriesContext(connection) as captured:
                shown(client, f"/chat/{room.pk}/")
            counts.append(len(captured.captured_queries))
        assert counts[0] == counts[1]

    def test_shows_earlier_messages_on_pages_of_fifty(self, client: Client, ada: User, room: Group) -> None:
        Message.objects.bulk_create(
            Message(group=room, author=ada, role="user", text=f"line {n:03}") for n in range(120)
        )
        newest = shown(client, f"/chat/{room.pk}/")
        assert re.findall(r"line (\d+)", newest) == [f"{n:03}" for n in range(70, 120)]
        link = re.search(r'href="(\?before=\d+)"', newest)
        assert link is not None
        middle = shown(client, f"/chat/{room.pk}/{link[1]}")
        assert re.findall(r"line (\d+)", middle) == [f"{n:03}" for n in range(20, 70)]
        link = re.search(r'href="(\?before=\d+)"', middle)
        assert link is not None
        oldest = shown(client, f"/chat/{room.pk}/{link[1]}")
        assert re.findall(r"line (\d+)", oldest) == [f"{n:03}" for n in range(20)]
        assert "?before" not in oldest

    @pytest.mark.parametrize("before", ["x", "-1", "0", "1" * 30, "²"])
    def test_finds_nothing_before_what_is_no_message(self, client: Client, room: Group, before: str) -> None:
        assert client.get(f"/chat/{room.pk}/", {"before": before}).status_code == 404


class TestButtons:
    def test_say_something_with_and_without_scripts(self, client: Client, room: Group) -> None:
        address = f"/chat/{room.pk}/say/"
        assert post_text(client, address, text="Hello") == ""
        assert post_json(client, address, text="Why?", ask="yes") == {"sentence": "", "refused": False}
        assert people.log(room) == [("user", "Hello"), ("user", "Why?"), ("assistant", "")]

    def test_say_once_what_is_sent_twice_without_scripts(self, client: Client, room: Group) -> None:
        """With scripts the page stays, and who says the same again means it."""
        hello = {"text": "Hello", "csrfmiddlewaretoken": "of one page"}
        assert [post_text(client, f"/chat/{room.pk}/say/", **hello) for _ in range(2)] == ["", ""]
        assert people.log(room) == [("user", "Hello")]
        post_json(client, f"/chat/{room.pk}/say/", **hello)
        assert people.log(room) == [("user", "Hello")] * 2

    def test_keep_what_was_written_when_it_is_refused(self, client: Client, ada: User, room: Group) -> None:
        people.ask(room, ada)
        sentence = post_text(client, f"/chat/{room.pk}/say/", text="And why not?", ask="yes")
        assert (
            sentence
            == "Your last question has not been answered yet. Wait for the answer or cancel it before you ask again."
        )
        client.post(f"/chat/{room.pk}/say/", {"text": "And why not?", "ask": "yes"})
        assert ">And why not?</textarea>" in shown(client, f"/chat/{room.pk}/")
        assert ">And why not?</textarea>" not in shown(client, f"/chat/{room.pk}/")

    def test_say_when_one_may_go_on(self, client: Client, room: Group) -> None:
        for _ in range(3):
            assert post_json(client, f"/chat/{room.pk}/say/", text="Hi")["sentence"] == ""
        assert post_json(client, f"/chat/{room.pk}/say/", text="Hi") == {
            "sentence": "You are sending messages too fast. Try again in 6 s.",
            "refused": True,
        }

    def test_limit_a_guest_by_their_session(self, room: Group) -> None:
        guest = new_guest()
        guest.groups.add(room)
        visitor = browser(guest)
        for _ in range(4):
            last = post_json(visitor, f"/chat/{room.pk}/say/", text="Hi")
        assert last["refused"]
        taken = ratelimits.get_value("chat/send", key=accounts.limit_key(guest)).value
        assert accounts.limit_key(guest).startswith("session:")
        assert taken < 1

    def test_say_that_too_many_answers_wait(self, client: Client, ada: User, room: Group, settings: Settings) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "WAITING_JOBS_PER_OWNER": 1}
        jobs.submit("chat", {}, owner=ada)
        post_text = post_json(client, f"/chat/{room.pk}/say/", text="Why?", ask="yes")
        assert post_text["sentence"] == ("Quota of one owner, jobs waiting: 1 allowed, 1 used, 1 more requested.")
        assert post_text["refused"]
        assert people.log(room) == []

    def test_say_that_answers_are_booked_out(
        self, client: Client, room: Group, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With a bucket that fills by a token a minute: the usual one gets a question's tokens in a second."""
        slow = ratelimits.TokenBucket(1, timedelta(minutes=1), capacity=100_000, max_reserved=10)
        monkeypatch.setitem(declared_limits._declared, "chat completion tokens", slow)
        ratelimits.limit("chat completion tokens", count=100_000, reserve=True)
        sentence = post_json(client, f"/chat/{room.pk}/say/", text="Why?", ask="yes")["sentence"]
        assert re.fullmatch(r"All the assistant's tokens are in use\. Try again in \d+ s\.", sentence)

    def test_cancel_ask_again_and_delete(self, client: Client, ada: User, room: Group) -> None:
        answer = people.ask(room, ada)
        where = f"/chat/{room.pk}"
        assert post_text(client, f"{where}/cancel/", answer=answer.pk) == "Canceled before an answer was started."
        assert post_text(client, f"{where}/again/", answer=answer.pk) == ""
        assert post_json(client, f"{where}/again/", answer=answer.pk)["refused"]
        question = answer.message.question_id
        assert post_text(client, f"{where}/remove/", message=question) == "Deleted."
        assert people.log(room) == []

    def test_of_others_do_nothing(self, client: Client, room: Group) -> None:
        bob = farm.user("bob", groups=[room])
        answer = people.ask(room, bob)
        for path in ("cancel", "again"):
            assert "Only the author of the message" in post_text(client, f"/chat/{room.pk}/{path}/", answer=answer.pk)
        question = answer.message.question_id
        assert post_json(client, f"/chat/{room.pk}/remove/", message=question)["refused"]
        assert people.stands(answer) == ("waiting", "")

    @pytest.mark.parametrize("number", ["", "x", "-1", "1" * 30, "٣"])
    def test_with_a_number_that_is_none_do_nothing(self, client: Client, room: Group, number: str) -> None:
        for path, field in [("cancel", "answer"), ("again", "answer"), ("remove", "message")]:
            assert post_json(client, f"/chat/{room.pk}/{path}/", **{field: number})["refused"]

    def test_write_instructions(self, client: Client, room: Group) -> None:
        assert post_text(client, f"/chat/{room.pk}/instructions/", text="Be brief.") != ""
        assert "Be brief.</blockquote>" in shown(client, f"/chat/{room.pk}/")
        stranger = browser(farm.user("bob", groups=[room]))
        assert post_json(stranger, f"/chat/{room.pk}/instructions/", text="Be long.")["refused"]
        assert "Change them" not in shown(stranger, f"/chat/{room.pk}/")


class TestAWorkerOfOnesOwn:
    def test_is_shown_its_key_once_with_the_command(self, client: Client, ada: User, room: Group) -> None:
        response = client.post(f"/chat/{room.pk}/worker/", {"name": "laptop"})
        page = response.content.decode()
        key = re.search(r"jfw_[\w-]+", page)
        assert key is not None
        assert f"python -m jobfarm_worker --url http://testserver --key {key[0]} --handler chat" in page
        assert "no-store" in response.headers["Cache-Control"]
        assert jobs.authenticate(key[0]).owner == ada
        assert "jfw_" not in shown(client, f"/chat/{room.pk}/")
        assert "of ada" in shown(client, f"/chat/{room.pk}/")

    def test_is_not_for_guests(self, room: Group) -> None:
        guest = new_guest()
        guest.groups.add(room)
        assert "sign up first" in post_text(browser(guest), f"/chat/{room.pk}/worker/", name="laptop")
        assert Worker.objects.count() == 0

    def test_is_refused_with_a_name_that_is_none(self, client: Client, room: Group) -> None:
        assert "at most 60 characters" in post_text(client, f"/chat/{room.pk}/worker/", name="x" * 61)
        assert Worker.objects.count() == 0


class TestTheAdministration:
    def test_lists_what_was_said_and_deletes_it_as_its_author_would(self, room: Group, ada: User) -> None:
        answer = people.ask(room, ada, "Delete me")
        job = people.job_of(answer)
        staff = browser(User.objects.create_superuser("root"))
        page = shown(staff, "/admin/chat/message/")
        assert "Delete me" in page
        question = answer.message.question_id
        assert staff.post(f"/admin/chat/message/{question}/delete/", {"post": "yes"}).status_code == 302
        assert (farm.status(job), Answer.objects.count(), people.log(room)) == ("canceled", 0, [])
        spoken = people.say(room, ada, "Me too")
        fields = {"action": "delete_selected", "_selected_action": [spoken.pk], "post": "yes"}
        assert staff.post("/admin/chat/message/", fields).status_code == 302
        assert people.log(room) == []
        assert staff.get("/admin/chat/message/add/").status_code == 403
