"""A message that is streamed only once it is whole."""

import json
from typing import Any

import pytest
from anthropic.types import RawMessageStreamEvent
from pydantic import TypeAdapter

from jobfarm_worker.handlers.messages import PassedMessage
from openai_api.domain import messages

MESSAGE: Any = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "tiny", "stop_reason": "tool_use",
    "stop_sequence": None, "usage": {"input_tokens": 3, "output_tokens": 2},
    "content": [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "redacted_thinking", "data": "AA"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c", "name": "look", "input": {"at": "sea"}},
        {"type": "tool_use", "id": "d", "name": "go", "input": {}},
    ],
}  # fmt: skip


def test_has_its_texts_in_deltas_since_clients_read_those_alone() -> None:
    made = [*messages.events(MESSAGE)]
    assert [event["content_block"] for event in made if event["type"] == "content_block_start"] == [
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "redacted_thinking", "data": "AA"},
        {"type": "text", "text": ""},
        {"type": "tool_use", "id": "c", "name": "look", "input": {}},
        {"type": "tool_use", "id": "d", "name": "go", "input": {}},
    ]
    assert [(event["index"], event["delta"]) for event in made if event["type"] == "content_block_delta"] == [
        (0, {"type": "thinking_delta", "thinking": "Hm."}),
        (0, {"type": "signature_delta", "signature": "s"}),
        (2, {"type": "text_delta", "text": "I look."}),
        (3, {"type": "input_json_delta", "partial_json": json.dumps({"at": "sea"})}),
    ]


def test_is_made_of_events_of_the_clients_types_that_put_together_are_it() -> None:
    passed, known = PassedMessage(), TypeAdapter[Any](RawMessageStreamEvent)
    for event in messages.events(MESSAGE):
        known.validate_python(event, strict=True)
        passed.lines(event)
    assert passed.answer() == MESSAGE


@pytest.mark.parametrize("content", [None, 5, "text", [1, None, "x"], {"a": 1}])
def test_whose_content_is_nonsense_has_no_blocks(content: Any) -> None:
    kinds = [event["type"] for event in messages.events({**MESSAGE, "content": content})]
    assert kinds == ["message_start", "message_delta", "message_stop"]
