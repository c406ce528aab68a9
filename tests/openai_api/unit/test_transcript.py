"""From the hub's messages to the chunks of one answer."""

import json
from typing import Any

import pytest

from live.registry import Item
from live.rendering import Page
from live.send_queue import Message
from openai_api.waiting.transcript import Transcript
from tests.looped import looped


def job(status: str, *, fence: int = 1, written: int = 0) -> Message:
    """The hub's message about the job."""
    state = {"status": status, "fence": fence, "written": written}
    return Message(kind="data", watch_id="", encoded=json.dumps(state))


def output(fence: int, seq: int, text: str) -> Message:
    """The hub's message about a piece of output."""
    item = Item(cursor=f"{fence}:{seq}", data={"fence": fence, "seq": seq, "text": text})
    return Message(kind="items", watch_id="", page=Page(items=(item,)))


def chunks(transcript: Transcript, *messages: Message) -> list[tuple[str, Any]]:
    """Id and data of the events that these messages make."""
    events = [event.decode().splitlines() for event in transcript.take(messages)]
    return [(head.removeprefix("id: "), json.loads(data.removeprefix("data: "))) for head, data, _ in events]


class TestChunks:
    def test_are_read_once_for_all_who_watch(self) -> None:
        shared = output(1, 0, '{"a":1}\n{"b":2}\n')
        callers = [Transcript() for _ in range(3)]
        events = [chunks(each, job("in_progress"), shared) for each in callers]
        assert events[0] == events[1] == events[2] == [("1.1", {"a": 1}), ("1.2", {"b": 2})]
        assert {id(each.latest) for each in callers} == {id(callers[0].latest)}

    def test_are_lines_whatever_the_pieces(self) -> None:
        transcript = Transcript()
        assert chunks(transcript, job("in_progress"), output(1, 0, '{"a":1}\n{"b"')) == [("1.1", {"a": 1})]
        assert chunks(transcript, output(1, 1, ":2}")) == []
        assert chunks(transcript, output(1, 2, "\n")) == [("1.2", {"b": 2})]

    def test_that_are_no_objects_are_left_out(self) -> None:
        transcript = Transcript()
        assert chunks(transcript, job("in_progress"), output(1, 0, 'hello\n7\n[]\n\n{"a":1}\n')) == [("1.1", {"a": 1})]

    def test_count_whichever_message_comes_first(self) -> None:
        transcript = Transcript()
        assert chunks(transcript, job("pending", fence=0)) == []
        assert chunks(transcript, output(1, 0, "{}\n"), job("in_progress")) == [("1.1", {})]

    def test_may_be_known_before_the_claim_is(self) -> None:
        transcript = Transcript()
        assert chunks(transcript, job("pending", fence=0), output(1, 0, "{}\n")) == [("1.1", {})]
        assert not transcript.is_broken

    @pytest.mark.parametrize("status", ["pending", "failed", "timed_out", "canceled"])
    def test_of_an_attempt_that_is_over_are_not_the_answer(self, status: str) -> None:
        transcript = Transcript()
        assert chunks(transcript, job(status), output(1, 0, "{}\n")) == []

    def test_of_a_later_attempt_take_the_place_of_half_a_line(self) -> None:
        transcript = Transcript()
        chunks(transcript, job("in_progress"), output(1, 0, '{"half'))
        chunks(transcript, job("pending"))
        later = [job("in_progress", fence=2), output(2, 0, '{"whole":1}\n')]
        assert chunks(transcript, *later) == [("2.1", {"whole": 1})]
        assert not transcript.is_broken


class TestAnAnswer:
    def test_is_over_when_the_job_succeeded_and_all_was_passed_on(self) -> None:
        transcript = Transcript()
        chunks(transcript, job("in_progress"), output(1, 0, "{}\n"), job("success", written=2))
        assert not transcript.is_over
        chunks(transcript, output(1, 1, "{}\n"))
        assert (transcript.is_over, transcript.is_success) == (True, True)

    def test_that_somebody_waits_for_as_a_whole_is_over_with_the_job(self) -> None:
        transcript = Transcript()
        transcript.reads_output = False
        chunks(transcript, job("success", written=2))
        assert transcript.is_over

    @pytest.mark.parametrize("now", [("pending", 1), ("in_progress", 2), ("success", 2), ("failed", 2)])
    def test_is_broken_by_the_end_of_its_attempt(self, now: tuple[str, int]) -> None:
        transcript = Transcript()
        chunks(transcript, job("in_progress"), output(1, 0, "{}\n"))
        assert chunks(transcript, job(now[0], fence=now[1]), output(2, 0, '{"other":1}\n')) == []
        assert transcript.is_broken

    def test_that_failed_after_its_first_chunk_is_over(self) -> None:
        transcript = Transcript()
        chunks(transcript, job("in_progress"), output(1, 0, "{}\n"), job("failed", written=1))
        assert (transcript.is_over, transcript.is_broken, transcript.is_success) == (True, False, False)

    def test_whose_job_is_gone_is_over(self) -> None:
        transcript = Transcript()
        chunks(transcript, Message(kind="gone", watch_id=""))
        assert transcript.is_over

    @pytest.mark.parametrize(
        ("before", "late"),
        [
            (job("pending"), job("in_progress")),
            (job("in_progress", fence=2), job("pending")),
            (job("canceled"), job("in_progress")),
            (job("success", written=1), job("in_progress")),
            (job("canceled"), job("in_progress", fence=2)),
        ],
    )
    def test_is_not_changed_by_how_its_job_stood_earlier(self, before: Message, late: Message) -> None:
        transcript = Transcript()
        chunks(transcript, before)
        known = transcript.status, transcript.is_over
        chunks(transcript, late)
        assert (transcript.status, transcript.is_over) == known

    def test_is_over_with_a_job_whose_later_claim_a_killed_database_has_lost(self) -> None:
        transcript = Transcript()
        chunks(transcript, job("in_progress", fence=2))
        chunks(transcript, job("canceled", fence=1))
        assert transcript.is_over


class TestAResponse:
    LINES = '{"type":"response.created"}\n{"type":"bad\\ntype"}\n{"type":"response.completed"}\n'

    def test_has_events_with_names_of_which_the_last_waits_for_the_jobs_success(self) -> None:
        transcript = Transcript()
        transcript.is_typed = True
        seen = list(transcript.take([job("in_progress"), output(1, 0, self.LINES)]))
        assert [event.partition(b"\n")[0] for event in seen] == [b"event: response.created", b"id: 1.2"]
        [last] = transcript.take([job("success", written=1)])
        assert last == b'event: response.completed\nid: 1.3\ndata: {"type":"response.completed"}\n\n'
        assert transcript.is_over

    def test_whose_job_fails_is_never_complete(self) -> None:
        transcript = Transcript()
        transcript.is_typed = True
        list(transcript.take([job("in_progress"), output(1, 0, self.LINES)]))
        assert list(transcript.take([job("failed", written=1)])) == []
        assert (transcript.is_over, transcript.is_success) == (True, False)

    def test_begins_behind_a_number_of_the_same_claim(self) -> None:
        transcript = Transcript.behind(0)
        messages = [job("success", written=1), output(1, 0, self.LINES)]
        assert [name for name, _ in chunks(transcript, *messages)] == ["1.2", "1.3"]
        later = Transcript.behind(2_000_004)
        assert (later.cursor, later.next_number) == ("3:-1", 2_000_005)
        assert chunks(later, job("in_progress", fence=4)) == []
        assert later.is_broken


class TestResuming:
    def test_begins_behind_the_chunks_that_the_caller_has(self) -> None:
        transcript = Transcript.resumed("3.2")
        assert transcript.cursor == "3:-1"
        lines = "".join(f'{{"n":{n}}}\n' for n in range(1, 5))
        messages = [job("success", fence=3, written=1), output(3, 0, lines)]
        assert chunks(transcript, *messages) == [("3.3", {"n": 3}), ("3.4", {"n": 4})]
        assert (transcript.is_over, transcript.is_success) == (True, True)

    def test_of_an_attempt_that_is_over_is_broken(self) -> None:
        transcript = Transcript.resumed("3.2")
        assert chunks(transcript, job("in_progress", fence=4)) == []
        assert transcript.is_broken

    @looped("event_id", ["", "x", "1", "1.0", "1.-1", "9" * 30 + ".1"])
    def test_after_what_is_no_chunks_id_begins_at_the_start(self, event_id: str) -> None:
        assert Transcript.resumed(event_id).cursor is None


@pytest.mark.parametrize("kind", ["[]", "{}", "7", "null"])
def test_an_event_whose_type_is_no_text_is_passed_on(kind: str) -> None:
    transcript = Transcript()
    transcript.is_typed = True
    assert len([*transcript.take([job("in_progress"), output(1, 0, f'{{"type":{kind}}}\n')])]) == 1
