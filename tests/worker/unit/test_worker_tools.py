"""Responses from chats: what is for OpenAI's server alone is left out, and tools of any form are functions."""

from __future__ import annotations

from typing import Any

from jobfarm_worker.handlers.responses_request import chat_request
from tests.worker.unit.test_worker_chunks import choice, chunk
from tests.worker.unit.test_worker_responses import SCHEMA, events, kinds, mapped

PATCH = {
    "type": "custom", "name": "apply_patch", "description": "Edits files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"},
}  # fmt: skip
TEAM = {
    "type": "namespace", "name": "team", "description": "Others.",
    "tools": [{"type": "function", "name": "ask", "parameters": SCHEMA, "strict": False, "defer_loading": False}],
}  # fmt: skip
# As Codex (0.171) asks: what of it is for OpenAI's server alone is not to keep it from a chat.
CODEX = {
    "model": "tiny", "stream": True, "store": False, "tool_choice": "auto", "parallel_tool_calls": True,
    "input": [{"type": "message", "id": "msg_1", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}],
    "tools": [
        {"type": "function", "name": "exec", "description": "Runs.", "strict": False, "parameters": SCHEMA},
        PATCH, TEAM, {"type": "web_search", "external_web_access": False},
    ],
    "reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k",
    "client_metadata": {"session": "s"}, "truncation": "auto", "top_logprobs": 0,
}  # fmt: skip


class TestARequestThatAsksForMore:
    def test_is_a_chat_without_that_and_says_what_was_left_out(self) -> None:
        chat = chat_request(CODEX)
        assert [tool["function"]["name"] for tool in chat.pop("tools")] == ["exec", "apply_patch", "team__ask"]
        assert chat == {
            "model": "tiny", "stream": True, "tool_choice": "auto", "parallel_tool_calls": True,
            "prompt_cache_key": "k", "messages": [{"role": "user", "content": "Hi"}],
        }  # fmt: skip
        answer = mapped(**CODEX)
        events(answer, chunk(choice(content="Hi.")), chunk(choice(finish="stop")))
        assert answer.answer()["jobfarm"]["notes"] == [
            f"Left out: {what}. The model server has chat/completions alone."
            for what in ("client_metadata", "include", "truncation", "reasoning.summary", "the tool web_search")
        ]

    def test_has_no_notes_where_nothing_was_left_out(self) -> None:
        answer = mapped(top_logprobs=0, truncation="disabled", include=[], tools=[])
        events(answer, chunk(choice(content="Hi.")), chunk(choice(finish="stop")))
        assert "jobfarm" not in answer.answer()

    def test_has_custom_tools_as_functions_of_one_text_and_their_calls_as_they_were_asked_for(self) -> None:
        [tool] = chat_request({"tools": [PATCH], "tool_choice": {"type": "custom", "name": "apply_patch"}})["tools"]
        assert tool["function"]["parameters"]["required"] == ["input"]
        assert "lark grammar:\nstart: /.+/" in tool["function"]["description"]
        answer = mapped(**CODEX)
        pieces = ['{"inp', 'ut": "*** Begin"}']
        calls: list[dict[str, Any]] = [
            {"index": 0, "function": {"arguments": text}, **({} if number else {"id": "c1"})}
            for number, text in enumerate(pieces)
        ]
        calls[0]["function"]["name"] = "apply_patch"
        seen = events(answer, *[chunk(choice(tool_calls=[call])) for call in calls], chunk(choice(finish="tool_calls")))
        assert kinds(seen)[2:] == [
            "output_item.added", "custom_tool_call_input.delta", "custom_tool_call_input.done", "output_item.done",
            "completed",
        ]  # fmt: skip
        [item] = answer.answer()["output"]
        assert (item["type"], item["name"], item["input"], item["call_id"]) == (
            "custom_tool_call", "apply_patch", "*** Begin", "c1",
        )  # fmt: skip

    def test_has_functions_of_a_namespace_with_both_names(self) -> None:
        answer = mapped(**CODEX)
        call = {"index": 0, "id": "c1", "function": {"name": "team__ask", "arguments": "{}"}}
        events(answer, chunk(choice(tool_calls=[call])), chunk(choice(finish="tool_calls")))
        [item] = answer.answer()["output"]
        assert (item["type"], item["namespace"], item["name"]) == ("function_call", "team", "ask")
        again = [{**item, "arguments": "{}"}, {"type": "function_call_output", "call_id": "c1", "output": "Yes."}]
        [turn, _] = chat_request({"input": again})["messages"]
        assert turn["tool_calls"][0]["function"]["name"] == "team__ask"

    def test_has_earlier_calls_of_custom_tools(self) -> None:
        items = [
            {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin"},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "Done."},
            {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        ]
        turn, output = chat_request({"input": items})["messages"]
        assert turn["tool_calls"][0]["function"] == {"name": "apply_patch", "arguments": '{"input": "*** Begin"}'}
        assert output == {"role": "tool", "tool_call_id": "c1", "content": "Done."}
