"""Responses from chats: what a request asks for, and the events that an answer makes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from jobfarm_worker import Failed
from jobfarm_worker.handlers.chat_demo import Demonstrator
from jobfarm_worker.handlers.chunks import FINISH_SUPPLIED, Transcription
from jobfarm_worker.handlers.responses import MappedResponse, PassedResponse
from jobfarm_worker.handlers.responses_request import chat_request
from tests.looped import looped
from tests.worker.unit.test_worker_chunks import CALLS_OF_SERVERS, choice, chunk
from tests.worker.unit.test_worker_demonstrators import run

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
USAGE = {
    "prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5,
    "prompt_tokens_details": {"cached_tokens": 1}, "completion_tokens_details": {"reasoning_tokens": 2},
}  # fmt: skip


def mapped(**body: Any) -> MappedResponse:
    return MappedResponse({"model": "tiny", **body}, job_id=7, fence=1, now=9)


def events(answer: Any, *pieces: dict[str, Any]) -> list[dict[str, Any]]:
    lines: list[str] = [line for piece in pieces for line in answer.lines(piece)]
    return [json.loads(line) for line in [*lines, *answer.closing()]]


def kinds(of: Iterable[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in of]


class TestTheChatOfARequest:
    def test_has_its_instructions_its_input_and_its_limits(self) -> None:
        body = {
            "model": "tiny", "instructions": "Be brief.", "input": "Hello?", "max_output_tokens": 9, "temperature": 0.5,
            "stream": True, "background": True, "store": True, "metadata": {"a": "b"}, "previous_response_id": "resp_1",
            "reasoning": {"effort": "low"}, "truncation": "disabled", "include": [], "top_logprobs": None, "tools": [],
            "tool_choice": "auto",
        }  # fmt: skip
        assert chat_request(body) == {
            "model": "tiny", "max_tokens": 9, "temperature": 0.5, "stream": True, "reasoning_effort": "low",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}],
        }  # fmt: skip

    def test_has_the_pictures_and_files_of_a_message(self) -> None:
        content = [
            {"type": "input_text", "text": "What is it?"},
            {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "low"},
            {"type": "input_file", "file_data": "data:,a", "filename": "a.txt"},
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        ]
        [message] = chat_request({"input": [{"role": "developer", "content": content}]})["messages"]
        assert message == {
            "role": "system",
            "content": [
                {"type": "text", "text": "What is it?"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": "low"}},
                {"type": "file", "file": {"file_data": "data:,a", "filename": "a.txt"}},
                {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
            ],
        }

    def test_has_a_system_only_in_the_first_place_and_no_two_turns_of_the_user(self) -> None:
        """As Codex has them, and templates of models do not: Qwen's refuse the call."""
        texts = [{"type": "input_text", "text": text} for text in ("Skills.", "Permissions.")]
        items = [
            {"role": "developer", "content": texts}, {"role": "user", "content": "Here is Linux."},
            {"role": "user", "content": [{"type": "input_image", "image_url": "data:,"}]},
            {"role": "assistant", "content": "Yes."}, {"role": "system", "content": "Be quick."},
        ]  # fmt: skip
        picture = {"type": "image_url", "image_url": {"url": "data:,"}}
        assert chat_request({"instructions": "Be brief.", "input": items})["messages"] == [
            {"role": "system", "content": "Be brief.\n\nSkills.\n\nPermissions."},
            {"role": "user", "content": [{"type": "text", "text": "Here is Linux."}, picture]},
            {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "Be quick."},
        ]  # fmt: skip

    def test_has_nothing_of_an_empty_text_that_is_joined(self) -> None:
        items = [{"role": role, "content": text} for role in ("developer", "user") for text in ("", "Hello.", "")]
        assert chat_request({"instructions": "", "input": items})["messages"] == [
            {"role": role, "content": "Hello."} for role in ("system", "user")
        ]

    def test_has_calls_of_functions_as_one_turn_and_their_outputs(self) -> None:
        texts = [{"type": "input_text", "text": "ro"}, {"type": "input_text", "text": "ugh"}]
        items = [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Sea?"}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
            {"type": "function_call", "call_id": "c2", "name": "go", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": texts},
            {"type": "function_call_output", "call_id": "c2", "output": "gone"},
        ]
        calls = [
            {"id": id_, "type": "function", "function": {"name": name, "arguments": "{}"}}
            for id_, name in (("c1", "look"), ("c2", "go"))
        ]
        assert chat_request({"input": items})["messages"] == [
            {"role": "user", "content": "Sea?"},
            {"role": "assistant", "content": "I look.", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "content": "rough"},
            {"role": "tool", "tool_call_id": "c2", "content": "gone"},
        ]

    def test_has_its_functions_and_which_of_them_is_wanted(self) -> None:
        tool = {"type": "function", "name": "look", "parameters": SCHEMA, "strict": True, "description": None}
        body = {"tools": [tool], "tool_choice": {"type": "function", "name": "look"}, "parallel_tool_calls": False}
        assert chat_request(body) == {
            "tools": [{"type": "function", "function": {"name": "look", "parameters": SCHEMA, "strict": True}}],
            "tool_choice": {"type": "function", "function": {"name": "look"}},
            "parallel_tool_calls": False,
            "messages": [],
        }

    @pytest.mark.parametrize(
        ("shape", "wanted"),
        [
            ({"type": "text"}, None),
            ({"type": "json_object"}, {"type": "json_object"}),
            (
                {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True, "description": None},
                {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}},
            ),
        ],
        ids=["text", "object", "schema"],
    )
    def test_has_the_form_of_the_answer(self, shape: Any, wanted: Any) -> None:
        request = chat_request({"text": {"format": shape, "verbosity": "low"}})
        assert (request.get("response_format"), request["verbosity"]) == (wanted, "low")

    @looped(
        ("body", "param"),
        [
            ({"prompt": {"id": "p"}}, "prompt"),
            ({"text": {"format": {"type": "grammar"}}}, "text.format.type"),
            ({"text": "short"}, "text"),
            ({"tools": "all"}, "tools"),
            ({"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}}, "tool_choice"),
            ({"reasoning": "high"}, "reasoning"),
            ({"tools": [{"type": "function", "name": "f"}], "tool_choice": {"type": "mcp"}}, "tool_choice"),
            ({"tool_choice": "required"}, "tool_choice"),
            ({"instructions": 7}, "instructions"),
            ({"input": 7}, "input"),
            ({"input": [7]}, "input[0].type"),
            ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
            ({"input": [{"role": "critic", "content": ""}]}, "input[0].role"),
            ({"input": [{"role": "user", "content": None}]}, "input[0].content"),
            ({"input": [{"role": "user", "content": [{"type": "video"}]}]}, "input[0].content[0].type"),
            (
                {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
                "input[0].content[0].image_url",
            ),
            ({"input": [{"type": "function_call", "name": "f", "arguments": "{}"}]}, "input[0].call_id"),
            ({"input": [{"type": "function_call_output", "output": None}]}, "input[0].output"),
        ],
        ids=lambda value: value if isinstance(value, str) else "",
    )
    def test_is_refused_by_the_name_of_what_it_cannot_say(self, body: Any, param: str) -> None:
        with pytest.raises(Failed) as caught:
            chat_request({"model": "tiny", **body})
        sentence, _, refusal = str(caught.value).partition("\n")
        assert sentence.startswith(f"The model server answered 400: {param}: ")
        assert json.loads(refusal)["error"]["param"] == param
        assert not caught.value.retryable


class TestTheEventsOfAChat:
    def test_of_a_text_come_in_the_order_of_openais(self) -> None:
        answer = mapped()
        pieces = [
            chunk(choice(role="assistant", content="")),
            chunk(choice(content="Hel")),
            chunk(choice(content="lo.")),
            chunk(choice(finish="stop")),
            chunk(usage=USAGE),
        ]
        seen = events(answer, *pieces)
        assert kinds(seen) == [
            "created", "in_progress", "output_item.added", "content_part.added",
            "output_text.delta", "output_text.delta",
            "output_text.done", "content_part.done", "output_item.done", "completed",
        ]  # fmt: skip
        assert [event["sequence_number"] for event in seen] == list(range(10))
        assert [event["delta"] for event in seen if "delta" in event] == ["Hel", "lo."]
        response = seen[-1]["response"]
        assert response == answer.answer()
        assert (response["id"], response["status"], response["created_at"]) == ("resp_7", "completed", 9)
        part = {"type": "output_text", "text": "Hello.", "annotations": []}
        assert response["output"] == [
            {"id": "msg_7_0", "type": "message", "status": "completed", "content": [part], "role": "assistant"}
        ]
        assert response["usage"] == {
            "input_tokens": 3, "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 0},
            "output_tokens": 2, "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": 5,
        }  # fmt: skip

    def test_before_the_first_token_are_no_token(self) -> None:
        answer = mapped()
        assert len(answer.lines(chunk(choice(role="assistant", content="")))) == 2
        assert (answer.has_token, answer.is_finished) == (False, False)
        answer.lines(chunk(choice(content="H")))
        assert (answer.has_token, answer.is_finished) == (True, False)

    def test_of_calls_have_their_arguments_however_they_are_mixed(self) -> None:
        def call(index: int, arguments: str, **more: Any) -> dict[str, Any]:
            return chunk(
                choice(tool_calls=[{"index": index, "function": {"arguments": arguments, **more}, "id": more and "c"}])
            )

        answer = mapped()
        texts = [chunk(choice(content="I look."))]
        calls = [call(0, "", name="look"), call(1, "{", name="go"), call(0, "{}"), call(1, "}")]
        seen = events(answer, *texts, *calls, chunk(choice(finish="tool_calls")))
        assert kinds(seen)[5:] == [
            "output_text.done", "content_part.done", "output_item.done",
            "output_item.added", "output_item.added", "function_call_arguments.delta", "function_call_arguments.delta",
            "function_call_arguments.delta", "function_call_arguments.done", "output_item.done",
            "function_call_arguments.done", "output_item.done", "completed",
        ]  # fmt: skip
        assert [(item.get("name"), item.get("arguments")) for item in answer.answer()["output"]] == [
            (None, None), ("look", "{}"), ("go", "{}"),
        ]  # fmt: skip
        assert [event["output_index"] for event in seen if event["type"].endswith("arguments.done")] == [1, 2]

    def test_of_reasoning_and_of_a_refusal_are_their_own(self) -> None:
        answer = mapped()
        pieces = [choice(reasoning_content="Hm"), choice(content="No"), choice(refusal="I may not.")]
        seen = events(answer, *map(chunk, pieces), chunk(choice(finish="stop")))
        assert kinds(seen)[2:] == [
            "output_item.added", "content_part.added", "reasoning_text.delta",
            "reasoning_text.done", "content_part.done", "output_item.done",
            "output_item.added", "content_part.added", "output_text.delta",
            "output_text.done", "content_part.done", "content_part.added", "refusal.delta",
            "refusal.done", "content_part.done", "output_item.done", "completed",
        ]  # fmt: skip
        reasoning, message = answer.answer()["output"]
        assert (reasoning["summary"], reasoning["content"][0]["text"]) == ([], "Hm")
        assert [part["type"] for part in message["content"]] == ["output_text", "refusal"]

    def test_of_calls_without_an_index_are_not_glued(self) -> None:
        for pieces in CALLS_OF_SERVERS.values():
            answer = mapped()
            events(answer, *[chunk(choice(tool_calls=[piece])) for piece in pieces], chunk(choice(finish="tool_calls")))
            assert [(item["name"], item["arguments"]) for item in answer.answer()["output"]] == [
                ("look", '{"n": 1}'), ("look", '{"n": 2}'),
            ]  # fmt: skip

    def test_count_tokens_where_groq_has_them(self) -> None:
        answer = mapped()
        events(answer, chunk(choice(content="Hi.")), chunk(choice(finish="stop"), x_groq={"usage": USAGE}))
        assert answer.answer()["usage"]["total_tokens"] == 5

    def test_are_whole_where_the_server_says_done_and_not_why(self) -> None:
        answer = mapped()
        answer.lines(chunk(choice(content="Hi.")))
        assert (answer.supply_finish(), answer.is_finished) == ([], True)
        [*_, last] = map(json.loads, answer.closing())
        assert (last["type"], last["response"]["status"]) == ("response.completed", "completed")
        assert last["response"]["jobfarm"]["notes"] == [FINISH_SUPPLIED]

    @pytest.mark.parametrize(
        ("finish", "reason"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
    )
    def test_that_was_cut_say_why(self, finish: str, reason: str) -> None:
        answer = mapped(max_output_tokens=1)
        seen = events(answer, chunk(choice(content="Hel")), chunk(choice(finish=finish)))
        assert seen[-1]["type"] == "response.incomplete"
        assert answer.answer()["incomplete_details"] == {"reason": reason}
        assert (answer.answer()["output"][0]["status"], answer.answer()["max_output_tokens"]) == ("incomplete", 1)

    def test_of_a_later_claim_have_later_numbers(self) -> None:
        answer = MappedResponse({"model": "tiny"}, job_id=7, fence=3, now=9)
        assert [event["sequence_number"] for event in events(answer, chunk())[:2]] == [2_000_000, 2_000_001]

    def test_make_of_an_answer_in_one_piece_the_same_response(self) -> None:
        streamed, whole = mapped(), mapped()
        call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        pieces = [choice(content="I look."), choice(tool_calls=[{**call, "index": 0}]), choice(finish="tool_calls")]
        events(streamed, *map(chunk, pieces), chunk(usage=USAGE))
        message = {"role": "assistant", "content": "I look.", "tool_calls": [call]}
        choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
        whole.take_whole({"model": "tiny", "choices": choices, "usage": USAGE})
        assert whole.answer() == streamed.answer()

    def test_put_characters_together_that_came_in_halves(self) -> None:
        answer = mapped()
        events(answer, chunk(choice(content="\ud83d")), chunk(choice(content="\ude00")), chunk(choice(finish="stop")))
        assert answer.answer()["output"][0]["content"][0]["text"] == "😀"


class TestAServersOwnResponse:
    def passed(self) -> PassedResponse:
        body = {"model": "tiny", "metadata": {"a": "b"}, "previous_response_id": "resp_3"}
        return PassedResponse(body, job_id=7, fence=1, now=9)

    def test_keeps_its_events_under_our_id_and_numbers(self) -> None:
        own = {"id": "resp_of_the_server", "metadata": {}, "odd": 1, "output": []}
        answer = self.passed()
        pieces = [
            {"type": "response.created", "sequence_number": 4, "response": own},
            {"type": "response.odd.delta", "sequence_number": 9, "delta": "x"},
            {"type": "response.completed", "sequence_number": 10, "response": {**own, "status": "completed"}},
        ]
        assert not answer.has_token
        seen = events(answer, *pieces)
        assert [event["sequence_number"] for event in seen] == [0, 1, 2]
        assert (answer.has_token, answer.is_finished) == (True, True)
        ours = {"id": "resp_7", "metadata": {"a": "b"}, "previous_response_id": "resp_3", "odd": 1}
        assert ours.items() <= answer.answer().items()
        assert seen[0]["response"]["id"] == "resp_7"

    @pytest.mark.parametrize(
        "event",
        [
            {"type": "error", "message": "Busy."},
            {"type": "response.failed", "response": {"error": {"message": "Busy."}}},
        ],
        ids=["error", "failed"],
    )
    def test_that_failed_is_no_answer(self, event: dict[str, Any]) -> None:
        answer = self.passed()
        assert answer.lines(event) == []
        assert (answer.failure, answer.is_finished) == ("Busy.", False)


class TestATranscription:
    def test_is_its_deltas_and_what_its_last_event_says(self) -> None:
        answer = Transcription()
        deltas = [{"type": "transcript.text.delta", "delta": text} for text in ("Hel", "lo.")]
        assert [json.loads(line) for line in answer.lines(deltas[0])] == [deltas[0]]
        assert (answer.has_token, answer.is_finished) == (True, False)
        answer.lines(deltas[1])
        answer.lines({"type": "transcript.text.done", "text": "Hello.", "usage": {"seconds": 2}})
        assert answer.is_finished
        assert answer.answer() == {"text": "Hello.", "usage": {"seconds": 2}}


class TestTheDemonstrator:
    async def test_answers_with_a_response(self) -> None:
        body = {"model": "demonstrator", "input": "Why do lighthouses turn?", "stream": True}
        outcome, context = await run(Demonstrator(pace_s=0), {"path": "responses", "body": body})
        lines = [json.loads(line) for line in "".join(context.texts).splitlines()]
        assert lines[-1] == {
            "type": "response.completed",
            "sequence_number": len(lines) - 1,
            "response": outcome.result,
        }
        [message] = outcome.result["output"]
        assert "lighthouses" in message["content"][0]["text"]
        assert outcome.result["usage"]["input_tokens"] == 4

    async def test_refuses_what_a_chat_cannot_say(self) -> None:
        body = {"model": "demonstrator", "input": "x", "prompt": {"id": "p"}}
        outcome, _ = await run(Demonstrator(pace_s=0), {"path": "responses", "body": body})
        assert outcome.error.startswith("The model server answered 400: prompt: ")
