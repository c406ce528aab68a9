"""Responses from chats: what is for OpenAI's server alone is left out, and the answer says so."""

from __future__ import annotations

import pytest

from jobfarm_worker import Failed
from jobfarm_worker.handlers.responses_request import chat_request, left_out
from tests.worker.unit.test_worker_chunks import choice, chunk
from tests.worker.unit.test_worker_responses import SCHEMA, events, mapped

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
        assert [tool["function"]["name"] for tool in chat.pop("tools")] == ["exec"]
        assert chat == {
            "model": "tiny", "stream": True, "tool_choice": "auto", "parallel_tool_calls": True,
            "prompt_cache_key": "k", "messages": [{"role": "user", "content": "Hi"}],
        }  # fmt: skip
        answer = mapped(**CODEX)
        events(answer, chunk(choice(content="Hi.")), chunk(choice(finish="stop")))
        left_out = [
            "client_metadata", "include", "truncation", "reasoning.summary",
            "the tool custom", "the tool namespace", "the tool web_search",
        ]  # fmt: skip
        assert answer.answer()["jobfarm"]["notes"] == [
            f"Left out: {what}. The model server has chat/completions alone." for what in left_out
        ]

    def test_is_a_chat_whatever_it_asks_for_by_names_of_tomorrow(self) -> None:
        more = {
            "of_tomorrow": {"a": [1]}, "top_k": 3, "reasoning": {"effort": "low", "odd": 1}, "text": {"odd": True},
            "tools": [{"type": "file_search"}, {"type": "function", "name": "go", "odd": 1}],
        }  # fmt: skip
        assert chat_request({"model": "tiny", "input": "Hi", **more}) == {
            "model": "tiny", "messages": [{"role": "user", "content": "Hi"}], "reasoning_effort": "low",
            "tools": [{"type": "function", "function": {"name": "go"}}],
        }  # fmt: skip
        named = [note.split(". ")[0].removeprefix("Left out: ") for note in left_out(more)]
        assert named == ["of_tomorrow", "top_k", "reasoning.odd", "text.odd", "the tool file_search"]

    def test_has_no_notes_where_nothing_was_left_out(self) -> None:
        answer = mapped(top_logprobs=0, truncation="disabled", include=[], tools=[])
        events(answer, chunk(choice(content="Hi.")), chunk(choice(finish="stop")))
        assert "jobfarm" not in answer.answer()

    def test_is_refused_where_it_insists_on_a_tool_that_no_chat_has(self) -> None:
        with pytest.raises(Failed, match="tool_choice: "):
            chat_request({**CODEX, "tool_choice": {"type": "custom", "name": "apply_patch"}})

    def test_is_refused_behind_calls_that_no_chat_has(self) -> None:
        call = {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin"}
        with pytest.raises(Failed, match=r"input\[0\]\.type: .* 'custom_tool_call'"):
            chat_request({"input": [call]})

    def test_has_no_searches_of_another_server(self) -> None:
        search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
        [message] = chat_request({"input": [search, {"role": "user", "content": "And now?"}]})["messages"]
        assert message == {"role": "user", "content": "And now?"}
