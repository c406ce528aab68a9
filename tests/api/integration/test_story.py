"""From the hub's messages to events: ids that resume, an end that comes last."""

import json
from typing import Any

from jobs.waiting.events import Story
from live.registry import Item
from live.rendering import Page
from live.send_queue import Message


def job(status: str, *, fence: int = 1, written: int = 0, version: str = "aa") -> Message:
    """The hub's word about a job."""
    state = {"job": {"status": status, "fence": fence}, "written": written}
    return Message(kind="data", watch_id="", seen=version, encoded=json.dumps(state))


def output(*pieces: tuple[int, int]) -> Message:
    """The hub's word about output: (fence, number) of each piece."""
    items = (Item(cursor=f"{a}:{s}", data={"fence": a, "seq": s, "text": "x"}) for a, s in pieces)
    page = Page(items=tuple(items))
    return Message(kind="items", watch_id="", seen=page.cursor, page=page)


def events_of(story: Story, *messages: Message) -> list[tuple[str, str, Any]]:
    """Name, id and data of the events."""
    return [(name, story.position(), json.loads(data)) for name, data in story.steps(messages)]


class TestIds:
    def test_say_claim_next_number_and_version(self) -> None:
        story = Story.resumed("")
        assert [event[:2] for event in events_of(story, job("in_progress"), output((1, 0), (1, 1)))] == [
            ("job", "0.0.aa"),
            ("output", "1.1.aa"),
            ("output", "1.2.aa"),
        ]
        assert story.cursor == "1:1"

    def test_of_another_kind_begin_at_the_start(self) -> None:
        for foreign in ("", "7", "1.2", "1.2.x", "1.2.aa\n", " 1.2.aa", "1.-2.aa"):
            assert Story.resumed(foreign).cursor is None, foreign

    def test_resume_behind_what_was_told(self) -> None:
        story = Story.resumed("1.2.aa")
        assert story.cursor == "1:1"
        assert events_of(story, job("in_progress", version="aa")) == []
        assert [event[0] for event in events_of(story, job("in_progress", version="bb"))] == ["job"]


class TestEnd:
    def test_waits_for_all_of_the_output(self) -> None:
        story = Story.resumed("")
        assert [event[0] for event in events_of(story, job("success", written=2))] == ["job"]
        assert not story.is_over
        assert [event[0] for event in events_of(story, output((1, 0)))] == ["output"]
        assert events_of(story, output((1, 1)))[-1] == ("end", "1.2.aa", {"status": "success"})
        assert story.is_over

    def test_waits_for_the_output_of_the_last_attempt(self) -> None:
        story = Story.resumed("1.5.")
        events_of(story, job("failed", fence=2, written=1))
        assert not story.is_over
        events_of(story, output((2, 0)))
        assert story.is_over

    def test_comes_at_once_to_who_has_heard_everything(self) -> None:
        story = Story.resumed("1.2.aa")
        assert events_of(story, job("success", written=2)) == [("end", "1.2.aa", {"status": "success"})]

    def test_comes_without_a_word_when_the_job_is_gone(self) -> None:
        story = Story.resumed("")
        assert events_of(story, Message(kind="gone", watch_id="")) == []
        assert story.is_over


class TestPieces:
    def test_are_the_same_text_for_all_who_watch(self) -> None:
        message = output((1, 0), (1, 1))
        pieces = [[data for name, data in Story.resumed("").steps([message]) if name == "output"] for _ in range(3)]
        assert {len({id(data) for data in one}) for one in zip(*pieces, strict=True)} == {1}
        assert [json.loads(data)["seq"] for data in pieces[0]] == [0, 1]
