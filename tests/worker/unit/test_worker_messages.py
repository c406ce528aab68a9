"""The chat that a message asks for, of a server that has no messages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from jobfarm_worker import Failed
from jobfarm_worker.handlers import messages_request as request
from jobfarm_worker.handlers.calls import headers_of
from jobfarm_worker.handlers.messages_request import chat_request, estimated
from tests.looped import looped
from tests.worker.unit.dialects import named

LEFT_OUT = named("/v1/messages", what="left out")
HELLO: Any = [{"role": "user", "content": "Hello?"}]
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}


def chat(**body: Any) -> dict[str, Any]:
    return chat_request({"model": "tiny", "messages": HELLO, **body})[0]


def notes(**body: Any) -> list[str]:
    return [note.split(". ")[0].removeprefix("Left out: ") for note in chat_request({"messages": HELLO, **body})[1]]


def chatted(*messages: Any) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = chat(messages=list(messages))["messages"]
    return made


class TestTheChatOfARequest:
    def test_has_its_system_its_messages_and_its_limits(self) -> None:
        body = {
            "model": "tiny", "system": "Be brief.", "messages": HELLO, "max_tokens": 9, "temperature": 0.5,
            "top_p": 0.9, "stop_sequences": ["\n"], "stream": True,
        }  # fmt: skip
        assert chat_request(body) == (
            {
                "model": "tiny", "max_tokens": 9, "temperature": 0.5, "top_p": 0.9, "stop": ["\n"], "stream": True,
                "messages": [{"role": "system", "content": "Be brief."}, *HELLO],
            },
            [],
        )  # fmt: skip

    def test_joins_the_blocks_of_a_system_whatever_is_cached_of_them(self) -> None:
        blocks = [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}} for text in ("One.", "Two.")]
        assert chat(system=blocks)["messages"][0] == {"role": "system", "content": "One.\n\nTwo."}

    def test_has_no_line_of_claude_code_that_changes_with_each_request(self) -> None:
        """A server would never find the prompt in its cache."""
        texts = ("x-anthropic-billing-header: cc_version=2.1; cch=7;", "Be brief.")
        system = [{"type": "text", "text": text} for text in texts]
        assert chat(system=system)["messages"] == [{"role": "system", "content": "Be brief."}, *HELLO]
        assert chat(system=texts[0])["messages"] == HELLO

    def test_has_the_pictures_of_a_document_among_its_texts(self) -> None:
        content = [{"type": "text", "text": "See:"}, PNG, {"type": "text", "text": "Nice."}]
        document = {"type": "document", "source": {"type": "content", "content": content}}
        [message] = chatted({"role": "user", "content": [document]})
        assert [part["type"] for part in message["content"]] == ["text", "image_url", "text"]

    def test_that_ends_with_the_assistant_says_that_it_may_not_be_continued(self) -> None:
        turns = [*HELLO, {"role": "assistant", "content": "Well,"}]
        made, [note] = chat_request({"messages": turns})
        assert made["messages"] == turns
        assert note.startswith("The last message is the assistant's")

    def test_has_results_of_a_search_and_says_which_results_are_errors(self) -> None:
        found = {
            "type": "search_result", "title": "Seas", "source": "https://sea.example",
            "content": [{"type": "text", "text": "Wet."}],
        }  # fmt: skip
        results = [
            {"type": "tool_result", "tool_use_id": "c1", "content": [found]},
            {"type": "tool_result", "tool_use_id": "c2", "content": "No sea.", "is_error": True},
            {"type": "tool_result", "tool_use_id": "c3", "is_error": True},
            {"type": "tool_result", "tool_use_id": "c4", "content": "Sea.", "is_error": False},
        ]
        made = chatted({"role": "user", "content": results})
        assert [each["content"] for each in made] == ["Seas\n\nWet.", "Error: No sea.", "Error", "Sea."]
        assert notes(messages=[{"role": "user", "content": results}]) == []

    def test_has_the_pictures_and_documents_of_a_message(self) -> None:
        pdf = {"type": "base64", "media_type": "application/pdf", "data": "BB"}
        content = [
            {"type": "text", "text": "What is it?"},
            PNG,
            {"type": "image", "source": {"type": "url", "url": "https://a.example/b.png"}},
            {"type": "document", "title": "a.pdf", "source": pdf},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "A letter."}},
            {"type": "document", "source": {"type": "content", "content": "Another."}},
        ]
        [message] = chatted({"role": "user", "content": content})
        assert message["content"] == [
            {"type": "text", "text": "What is it?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
            {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,BB", "filename": "a.pdf"}},
            {"type": "text", "text": "A letter."},
            {"type": "text", "text": "Another."},
        ]

    def test_has_calls_of_tools_and_their_results_right_behind_them(self) -> None:
        thought = {"type": "thinking", "thinking": "Hm.", "signature": "x"}
        calls = [{"type": "tool_use", "id": f"c{n}", "name": "look", "input": {"n": n}} for n in (1, 2)]
        results = [
            {"type": "tool_result", "tool_use_id": "c1", "content": "A sea."},
            {"type": "tool_result", "tool_use_id": "c2", "content": [{"type": "text", "text": "See:"}, PNG]},
        ]
        made = chatted(
            {"role": "assistant", "content": [thought, {"type": "text", "text": "I look."}, *calls]},
            {"role": "user", "content": [{"type": "text", "text": "Well?"}, *results]},
        )
        functions = [{"name": "look", "arguments": f'{{"n": {n}}}'} for n in (1, 2)]
        assert made == [
            {
                "role": "assistant", "content": "I look.",
                "tool_calls": [
                    {"id": f"c{n}", "type": "function", "function": function} for n, function in enumerate(functions, 1)
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "A sea."},
            {"role": "tool", "tool_call_id": "c2", "content": "See:"},
            {
                "role": "user",
                "content": [
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
                    {"type": "text", "text": "Well?"},
                ],
            },
        ]  # fmt: skip

    def test_has_a_system_only_in_the_first_place_and_no_two_turns_of_the_user(self) -> None:
        """As Claude Code has them, and templates of models do not."""
        made = chatted(
            *HELLO, {"role": "system", "content": "Be quick."}, {"role": "user", "content": [PNG]},
            {"role": "assistant", "content": "Yes."}, {"role": "system", "content": "Be brief."},
        )  # fmt: skip
        assert [turn["role"] for turn in made] == ["user", "assistant", "user"]
        assert [part.get("text") for part in made[0]["content"]] == ["Hello?", "Be quick.", None]
        assert made[2]["content"] == "Be brief."

    def test_has_the_tools_that_clients_run_and_notes_those_of_another_server(self) -> None:
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        tools = [
            {"name": "look", "description": "Looks.", "input_schema": schema, "cache_control": {"type": "ephemeral"}},
            {"type": "custom", "name": "go", "input_schema": schema},
            {"type": "web_search_20250305", "name": "web_search"},
        ]
        made, left = chat_request({"messages": HELLO, "tools": tools})
        assert [each["function"] for each in made["tools"]] == [
            {"name": "look", "description": "Looks.", "parameters": schema},
            {"name": "go", "parameters": schema},
        ]
        assert left == ["Left out: the tool web_search_20250305. The model server has chat/completions alone."]

    @looped(
        ("choice", "expected"),
        [
            ({"type": "auto"}, {"tool_choice": "auto"}),
            ({"type": "any"}, {"tool_choice": "required"}),
            ({"type": "none"}, {"tool_choice": "none"}),
            (
                {"type": "auto", "disable_parallel_tool_use": True},
                {"tool_choice": "auto", "parallel_tool_calls": False},
            ),
            ({"type": "of_tomorrow"}, {}),
        ],
    )
    def test_has_the_choice_among_tools(self, choice: Any, expected: Any) -> None:
        made = chat(tools=[{"name": "go"}], tool_choice=choice)
        assert {name: made[name] for name in ("tool_choice", "parallel_tool_calls") if name in made} == expected
        assert "tool_choice" not in chat(tool_choice=choice)

    def test_names_the_tool_that_is_to_be_called_and_is_refused_for_one_that_was_left_out(self) -> None:
        choice, left_out = {"type": "tool", "name": "go"}, {"type": "web_search_20250305", "name": "go"}
        expected = {"type": "function", "function": {"name": "go"}}
        assert chat(tools=[{"name": "go"}], tool_choice=choice)["tool_choice"] == expected
        for tools in ([], [left_out], [left_out, {"name": "look"}]):
            with pytest.raises(Failed, match="tool_choice: there is no function 'go'"):
                chat(tools=tools, tool_choice=choice)

    def test_has_the_shape_that_the_answer_is_to_have(self) -> None:
        shape = {"format": {"type": "json_schema", "schema": {"type": "object"}}, "effort": "high"}
        assert chat(output_config=shape)["response_format"]["json_schema"]["schema"] == {"type": "object"}
        assert notes(output_config=shape) == ["output_config.effort"]
        assert chat(output_format=shape["format"]) == chat(output_config={"format": shape["format"]})
        assert notes(output_format=shape["format"]) == []

    def test_leaves_out_with_a_note_what_is_named_and_whatever_comes_tomorrow(self) -> None:
        body: Any = {name: {"type": "enabled"} for name in [*LEFT_OUT, "of_tomorrow"]}
        assert notes(**body) == sorted(body)
        assert set(chat(**body)) == {"model", "messages"}
        odd = {"role": "user", "content": [{"type": "of_tomorrow"}, {"type": "text", "text": "Hello?"}]}
        assert notes(messages=[odd, odd]) == ["content of the type of_tomorrow"]

    @looped(
        ("body", "named"),
        [
            ({"messages": "Hello?"}, "messages"),
            ({"messages": [{"role": "robot", "content": "Hello?"}]}, r"messages\[0\].role"),
            ({"messages": [{"role": "user", "content": 7}]}, r"messages\[0\].content"),
            (
                {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "file"}}]}]},
                r"messages\[0\].content.source",
            ),
            (
                {"messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "url"}}]}]},
                r"messages\[0\].content.source",
            ),
        ],
    )
    def test_refuses_by_its_name_what_cannot_be_left_out(self, body: Any, named: str) -> None:
        with pytest.raises(Failed, match=named) as caught:
            chat_request(body)
        assert not caught.value.retryable

    @looped("kind", ["image", "document"])
    def test_refuses_what_has_no_data_or_does_not_say_what_it_is(self, kind: str) -> None:
        sources: dict[str, dict[str, Any]] = {
            "data": {"type": "base64", "media_type": "image/png"},
            "media_type": {"type": "base64", "data": "AA", "media_type": ""},
        } | ({"url": {"type": "url"}} if kind == "image" else {})
        for name, source in sources.items():
            with pytest.raises(Failed, match=rf"messages\[0\].content.source.{name}: "):
                chatted({"role": "user", "content": [{"type": kind, "source": source}]})

    def test_counts_no_tokens_of_earlier_thoughts(self) -> None:
        thoughts = [
            {"type": "thinking", "thinking": "x" * 400, "signature": "y" * 400},
            {"type": "redacted_thinking", "data": "z" * 400},
        ]
        assert estimated({"messages": [{"role": "assistant", "content": thoughts}]}) < 10

    def test_counts_tokens_by_the_length_of_its_texts(self) -> None:
        texts = {
            "system": "x" * 40,
            "messages": [{"role": "user", "content": [PNG, {"type": "text", "text": "y" * 40}]}],
        }
        assert 1020 <= estimated(texts) <= 1030


@looped(
    ("headers", "expected"),
    [
        (
            {"anthropic-version": "2023-06-01", "anthropic-beta": "a,b"},
            {"anthropic-version": "2023-06-01", "anthropic-beta": "a,b"},
        ),
        ({"anthropic-beta": "a", "Authorization": "Bearer mine", "Host": "other"}, {"anthropic-beta": "a"}),
        ({"anthropic-version": "1\r\nHost: other", "anthropic-beta": 7}, {}),
        ("anthropic-beta: a", {}),
        (None, {}),
    ],
)
def test_a_payload_says_no_headers_to_the_model_server_but_those_of_the_api(headers: Any, expected: Any) -> None:
    assert headers_of({"path": "messages", "body": {}, "headers": headers}) == expected


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
BLOCK = st.fixed_dictionaries(
    {"type": st.sampled_from([*request.PARTS, *request.ELSEWHERE, "odd"])},
    optional=dict.fromkeys(("text", "source", "content", "input", "id", "tool_use_id"), JSON_VALUES),
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant"]), "content": st.text() | st.lists(BLOCK, max_size=4)}
)


@given(st.dictionaries(st.sampled_from([*request.PASSED, *request.MAPPED, *LEFT_OUT, "odd"]), JSON_VALUES))
def test_a_request_of_any_json_becomes_a_chat_or_is_refused(body: dict[str, Any]) -> None:
    try:
        made, _ = chat_request(body)
    except Failed:
        return
    assert set(made) <= {*request.PASSED, "messages", "stop", "stream", "tools", "tool_choice", "parallel_tool_calls"}


@given(st.lists(MESSAGE, max_size=5))
def test_a_conversation_keeps_its_texts_and_its_calls_in_their_order(conversation: list[Any]) -> None:
    try:
        made = chatted(*conversation)
    except Failed:
        return
    blocks = [block for each in conversation if isinstance(each["content"], list) for block in each["content"]]
    calls = [call for each in made for call in each.get("tool_calls", ())]
    uses = [
        block for each in conversation if each["role"] == "assistant" and isinstance(each["content"], list)
        for block in each["content"] if block["type"] == "tool_use"
    ]  # fmt: skip
    assert [call["id"] for call in calls] == [str(block.get("id")) for block in uses]
    assert all(
        json.loads(call["function"]["arguments"]) == (use.get("input") or {})
        for call, use in zip(calls, uses, strict=True)
    )
    results = [block for block in blocks if block["type"] == "tool_result"]
    assert len([each for each in made if each["role"] == "tool"]) <= len(results)
    texts = [each["content"] for each in conversation if isinstance(each["content"], str) and each["content"]]
    everything = json.dumps(made)
    assert all(json.dumps(text)[1:-1] in everything for text in texts)
