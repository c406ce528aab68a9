"""The events of a message: made of the chunks of a chat, or those of a server that has messages."""

from __future__ import annotations

import json
from typing import Any

from anthropic.types import Message, RawMessageStreamEvent
from hypothesis import given, strategies as st
from pydantic import TypeAdapter

from jobfarm_worker.handlers.chat_demo import Demonstrator
from jobfarm_worker.handlers.chunks import FINISH_SUPPLIED
from jobfarm_worker.handlers.messages import MappedMessage, PassedMessage
from tests.looped import looped
from tests.worker.unit.test_worker_chunks import CALLS_OF_SERVERS, choice, chunk
from tests.worker.unit.test_worker_demonstrators import run

USAGE = {"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}
EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)


def mapped(*notes: str, **body: Any) -> MappedMessage:
    return MappedMessage({"model": "tiny", **body}, notes=list(notes), job_id=7)


def events(answer: Any, *pieces: dict[str, Any]) -> list[dict[str, Any]]:
    lines: list[str] = [line for piece in pieces for line in answer.lines(piece)]
    return [json.loads(line) for line in [*lines, *answer.closing()]]


class TestTheEventsOfAnAnswer:
    def test_are_those_of_the_clients_types_in_their_order(self) -> None:
        made = events(
            mapped(),
            chunk(choice(role="assistant", content="")),
            chunk(choice(reasoning_content="Hm.")),
            chunk(choice(content="Hel")),
            chunk(choice(content="lo.")),
            chunk(choice(finish="stop")),
            {**chunk(), "usage": USAGE},
        )
        for event in made:
            EVENT.validate_python(event, strict=True)
        assert [event["type"].removeprefix("content_block_") for event in made] == [
            "message_start", "start", "delta", "stop", "start", "delta", "delta", "stop", "message_delta",
            "message_stop",
        ]  # fmt: skip
        assert [event["index"] for event in made if "index" in event] == [0, 0, 0, 1, 1, 1, 1]
        assert made[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
        assert made[-2]["usage"] == {
            "input_tokens": 5, "output_tokens": 2, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 4
        }  # fmt: skip

    def test_put_together_are_the_message(self) -> None:
        answer, passed = mapped("A note."), PassedMessage()
        made = events(answer, chunk(choice(content="Hel")), chunk(choice(content="lo.", finish="length")))
        for event in made:
            passed.lines(event)
        assert answer.answer() == passed.answer()
        Message.model_validate(answer.answer(), strict=True)
        assert answer.answer() == {
            "id": "msg_7", "type": "message", "role": "assistant", "model": "tiny",
            "content": [{"type": "text", "text": "Hello."}], "stop_reason": "max_tokens", "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0}, "jobfarm": {"notes": ["A note."]},
        }  # fmt: skip

    @looped(
        ("finish", "more", "expected"),
        [
            ("stop", {}, ("end_turn", None)),
            ("stop", {"stop_reason": "END"}, ("stop_sequence", "END")),
            ("stop", {"matched_stop": "END"}, ("stop_sequence", "END")),
            ("stop", {"stop_reason": 7}, ("end_turn", None)),
            ("stop", {"stop_reason": "other"}, ("end_turn", None)),
            ("length", {}, ("max_tokens", None)),
            ("content_filter", {}, ("refusal", None)),
            ("tool_calls", {}, ("tool_use", None)),
            ("of_tomorrow", {}, ("end_turn", None)),
        ],
    )
    def test_say_why_it_ended(self, finish: str, more: Any, expected: Any) -> None:
        answer = mapped(stop_sequences=["END"])
        events(answer, chunk(choice(content="x", finish=finish) | more))
        assert (answer.answer()["stop_reason"], answer.answer()["stop_sequence"]) == expected

    def test_that_say_stop_of_calls_mean_the_calls(self) -> None:
        answer = mapped()
        events(answer, chunk(choice(tool_calls=[_piece(0, "c", "look", "{}")], finish="stop")))
        assert answer.answer()["stop_reason"] == "tool_use"

    def test_of_calls_come_one_behind_the_other_though_their_pieces_are_mixed(self) -> None:
        answer = mapped()
        made = events(
            answer,
            chunk(choice(tool_calls=[_piece(0, "a", "look", '{"n":')])),
            chunk(choice(tool_calls=[_piece(1, "b", "go", '{"m"')])),
            chunk(choice(tool_calls=[_piece(0, text="1}")])),
            chunk(choice(tool_calls=[_piece(1, text=":2}")], finish="tool_calls")),
        )
        indices = [event["index"] for event in made if "index" in event]
        assert indices == sorted(indices)
        assert [(block["name"], block["input"]) for block in answer.answer()["content"]] == [
            ("look", {"n": 1}), ("go", {"m": 2}),
        ]  # fmt: skip

    @looped("pieces", CALLS_OF_SERVERS.values(), ids=CALLS_OF_SERVERS)
    def test_of_calls_are_told_apart_as_servers_send_them(self, pieces: Any) -> None:
        answer = mapped()
        events(answer, *[chunk(choice(tool_calls=[each])) for each in pieces], chunk(choice(finish="tool_calls")))
        uses = [(use["name"], use["input"]) for use in answer.answer()["content"]]
        assert uses == [("look", {"n": 1}), ("look", {"n": 2})]

    def test_of_a_whole_completion_are_the_same_message(self) -> None:
        call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"n":1}'}}
        message = {"role": "assistant", "reasoning": "Hm.", "content": "I look.", "tool_calls": [call]}
        whole, streamed = mapped(), mapped()
        whole.take_whole(
            {"model": "tiny", "choices": [{"message": message, "finish_reason": "tool_calls"}], "usage": USAGE}
        )
        events(
            streamed,
            chunk(choice(reasoning="Hm.")),
            chunk(choice(content="I look.")),
            chunk(choice(tool_calls=[_piece(0, "c", "look", '{"n":1}')], finish="tool_calls")),
            {**chunk(), "usage": USAGE},
        )
        assert whole.answer() == streamed.answer()
        Message.model_validate(whole.answer(), strict=True)

    def test_name_a_tool_whose_name_comes_after_its_id(self) -> None:
        answer = mapped()
        made = events(
            answer,
            chunk(choice(tool_calls=[_piece(0, "c")])),
            chunk(choice(tool_calls=[_piece(0, name="look", text="{}")], finish="tool_calls")),
        )
        [start] = [event for event in made if event["type"] == "content_block_start"]
        assert (start["content_block"]["id"], start["content_block"]["name"]) == ("c", "look")
        assert answer.answer()["content"] == [{"type": "tool_use", "id": "c", "name": "look", "input": {}}]

    def test_begin_with_what_the_first_chunk_counts(self) -> None:
        begun, *_ = events(mapped(), {**chunk(choice(content="x")), "usage": USAGE}, chunk(choice(finish="stop")))
        assert begun["message"]["usage"]["input_tokens"] == 5

    @looped("reason", ["abort", "error"])
    def test_that_end_with_a_failure_are_no_answer(self, reason: str) -> None:
        streamed, whole = mapped(), mapped()
        streamed.lines(chunk(choice(content="Hel", finish=reason)))
        whole.take_whole({"choices": [{"message": {"content": "Hel"}, "finish_reason": reason}]})
        for answer in (streamed, whole):
            assert (answer.is_finished, reason in answer.failure) == (False, True)

    def test_without_a_finish_reason_mean_the_calls_that_they_have(self) -> None:
        call = _piece(0, "c", "look", "{}")
        streamed, whole = mapped(), mapped()
        streamed.lines(chunk(choice(tool_calls=[call])))
        streamed.supply_finish()
        streamed.closing()
        whole.take_whole({"choices": [{"message": {"tool_calls": [call]}}]})
        for answer in (streamed, whole):
            assert answer.answer()["stop_reason"] == "tool_use"
            assert answer.answer()["jobfarm"] == {"notes": [FINISH_SUPPLIED]}

    def test_without_a_finish_reason_are_given_one_that_is_noted(self) -> None:
        answer = mapped()
        answer.lines(chunk(choice(content="Hel")))
        before = answer.is_finished
        answer.supply_finish()
        answer.closing()
        assert (before, answer.is_finished) == (False, True)
        assert (answer.answer()["stop_reason"], answer.answer()["jobfarm"]) == (
            "end_turn",
            {"notes": [FINISH_SUPPLIED]},
        )


@given(st.lists(st.sampled_from(["thinking", "text", "call 0", "call 1"]), max_size=8), st.data())
def test_any_chunks_make_events_that_a_client_puts_together_to_the_whole_answer(kinds: list[str], data: Any) -> None:
    """Blocks begin, grow and end one behind the other; what is streamed and what is answered whole are one."""
    answer, passed, arguments = mapped(), PassedMessage(), {0: '{"a": 1}', 1: '{"b": [2]}'}
    lines: list[str] = []
    for kind in kinds:
        text = data.draw(st.text(max_size=3))
        if kind.startswith("call"):
            number = int(kind[-1])
            cut = data.draw(st.integers(0, len(arguments[number])))
            piece, arguments[number] = arguments[number][:cut], arguments[number][cut:]
            delta = choice(tool_calls=[_piece(number, f"c{number}", f"f{number}", piece)])
        else:
            delta = choice(**{"reasoning" if kind == "thinking" else "content": text})
        lines += answer.lines(chunk(delta))
    for number in {int(kind[-1]) for kind in kinds if kind.startswith("call")}:
        lines += answer.lines(chunk(choice(tool_calls=[_piece(number, text=arguments[number])])))
    made = [json.loads(line) for line in [*lines, *answer.lines(chunk(choice(finish="stop"))), *answer.closing()]]
    for event in made:
        passed.lines(event)
    assert passed.answer() == answer.answer()
    assert passed.is_finished
    open_block = None
    for event in made:
        if event["type"] == "content_block_start":
            assert open_block is None
            open_block = event["index"]
        elif event["type"].startswith("content_block"):
            assert event["index"] == open_block
            open_block = None if event["type"].endswith("stop") else open_block
    uses = {block["id"]: block["input"] for block in answer.answer()["content"] if block["type"] == "tool_use"}
    assert uses.items() <= {"c0": {"a": 1}, "c1": {"b": [2]}}.items()


class TestAPassedMessage:
    def test_is_the_servers_word_for_word_but_for_its_pings(self) -> None:
        passed = PassedMessage()
        begun = {"id": "m", "type": "message", "model": "tiny", "content": [], "usage": {"input_tokens": 3}, "odd": 1}
        sent: list[dict[str, Any]] = [
            {"type": "message_start", "message": begun},
            {"type": "ping"},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "signature_delta", "signature": "s"}},
            {"type": "content_block_stop", "index": 0},
            {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "c", "input": {}}},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a"'}},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": ":1}"}},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "of_tomorrow"}},
            {"type": "of_tomorrow"},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
            {"type": "message_stop"},
        ]
        passed_on = [line for event in sent for line in passed.lines(event)]
        assert [json.loads(line) for line in passed_on] == [event for event in sent if event["type"] != "ping"]
        assert passed.is_finished
        assert passed.answer() == {
            **begun, "stop_reason": "tool_use", "usage": {"input_tokens": 3, "output_tokens": 2},
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                {"type": "tool_use", "id": "c", "input": {"a": 1}},
            ],
        }  # fmt: skip

    def test_keeps_an_input_that_came_whole_where_its_delta_is_empty(self) -> None:
        passed, block = PassedMessage(), {"type": "tool_use", "id": "c", "name": "look", "input": {"a": 1}}
        passed.lines({"type": "content_block_start", "index": 0, "content_block": block})
        empty = {"type": "input_json_delta", "partial_json": ""}
        passed.lines({"type": "content_block_delta", "index": 0, "delta": empty})
        assert passed.answer()["content"] == [block]

    def test_has_a_token_only_once_something_of_it_came(self) -> None:
        passed = PassedMessage()
        passed.lines({"type": "message_start", "message": {}})
        assert not passed.has_token
        passed.lines({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "H"}})
        assert passed.has_token


def _piece(index: int, call_id: str | None = None, name: str | None = None, text: str = "") -> dict[str, Any]:
    function = {"arguments": text, **({"name": name} if name else {})}
    return {"index": index, "function": function, **({"id": call_id, "type": "function"} if call_id else {})}


async def test_the_demonstrator_answers_messages_and_counts_their_tokens() -> None:
    question = [{"role": "user", "content": "Why do lighthouses turn?"}]
    body = {"model": "demonstrator", "stream": True, "messages": question}
    outcome, context = await run(Demonstrator(pace_s=0), {"path": "messages", "body": body})
    Message.model_validate(outcome.result, strict=True)
    assert "lighthouses" in outcome.result["content"][0]["text"]
    assert outcome.result["usage"]["input_tokens"] == 4
    kinds = [json.loads(written)["type"] for written in "".join(context.texts).splitlines()]
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")
    counted, _ = await run(Demonstrator(), {"path": "messages/count_tokens", "body": body})
    assert counted.result == {"input_tokens": 8}
