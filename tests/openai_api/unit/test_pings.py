"""What a stream says while nothing comes: events that OpenAI's own client takes for such, and that change nothing."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from openai.types import Completion
from openai.types.audio import TranscriptionTextDeltaEvent
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseCreatedEvent, ResponseInProgressEvent

from jobfarm_worker.handlers.responses import MappedResponse
from openai_api.http import Awaited
from openai_api.waiting.transcript import Transcript, silent_event
from tests.openai_api.unit.test_transcript import job, output

HEAD = {"id": "c-of-the-server", "object": "chat.completion.chunk", "created": 7, "model": "tiny"}


def transcript(*chunks: dict[str, Any], is_typed: bool = False) -> Transcript:
    """A caller who has these chunks."""
    made = Transcript()
    made.is_typed = is_typed
    text = "".join(json.dumps(chunk) + "\n" for chunk in chunks)
    list(made.take([job("in_progress"), output(1, 0, text)] if text else [job("pending", fence=0)]))
    return made


def _awaited(path: str) -> Awaited:
    return Awaited(job_id=7, user_id=1, path=path, model="tiny", is_stream=True, is_kept=False)


def ping(path: str, at: Transcript, *, is_first: bool = True) -> bytes:
    return silent_event(_awaited(path), at, is_first=is_first)


def data(event: bytes) -> Any:
    assert b"\nid:" not in event  # nobody resumes behind it
    return json.loads(event.decode().split("data: ")[1])


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("chat/completions", ChatCompletionChunk),
        ("completions", Completion),
        ("audio/transcriptions", TranscriptionTextDeltaEvent),
    ],
)
def test_is_of_the_form_of_its_call_and_without_content(path: str, kind: Any) -> None:
    fields = data(ping(path, transcript()))
    for choice in fields.get("choices", ()) if path == "completions" else ():
        assert choice.pop("finish_reason") is None  # its type says that it always has one, and no server does
        choice["finish_reason"] = "stop"
    kind.model_validate(fields, strict=True)
    assert fields.get("delta", "") == ""
    assert [choice.get("delta", {}) or choice.get("text", "") for choice in fields.get("choices", ())] in (
        [],
        [{}],
        [""],
    )


def test_repeats_the_head_of_the_chunks_around_it() -> None:
    at = transcript({**HEAD, "choices": []})
    assert HEAD.items() <= data(ping("chat/completions", at)).items()


def test_of_a_response_begins_it_once_and_counts_nothing() -> None:
    created = data(ping("responses", transcript()))
    ResponseCreatedEvent.model_validate(created, strict=True)
    assert (created["type"], created["sequence_number"]) == ("response.created", 0)
    assert (created["response"]["id"], created["response"]["status"]) == ("resp_7", "queued")
    later = data(ping("responses", transcript({"type": "response.created"}, {"type": "x"}, is_typed=True)))
    ResponseInProgressEvent.model_validate(later, strict=True)
    assert (later["sequence_number"], later["response"]["status"]) == (1, "in_progress")
    assert data(ping("responses", transcript(), is_first=False))["type"] == "response.in_progress"


def answered(*bodies: bytes) -> openai.OpenAI:
    """A client whose calls are answered with these streams."""
    left: Iterator[bytes] = iter(bodies)

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=next(left), headers={"content-type": "text/event-stream"})

    client: Any = httpx.Client(transport=httpx.MockTransport(answer))
    return openai.OpenAI(base_url="http://farm.example/v1", api_key="k", http_client=client)


def test_does_not_disturb_the_clients_that_put_answers_together() -> None:
    choice = {"index": 0, "delta": {"role": "assistant", "content": "Hello."}, "finish_reason": None}
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    chat = b"".join(
        [
            ping("chat/completions", transcript()),
            *(f"data: {json.dumps({**HEAD, 'choices': [each]})}\n\n".encode() for each in (choice, end)),
            b"data: [DONE]\n\n",
        ]
    )
    response = MappedResponse({"model": "tiny"}, job_id=7, fence=1, now=9)
    lines = [*response.lines({"choices": [choice]}), *response.lines({"choices": [end]}), *response.closing()]
    events = [f"event: {json.loads(line)['type']}\ndata: {line}\n".encode() for line in lines]
    first = [ping("responses", transcript()), ping("responses", transcript(), is_first=False)]
    middle = ping("responses", transcript(*map(json.loads, lines[:5]), is_typed=True))
    client = answered(chat, b"".join([*first, *events[:5], middle, *events[5:]]))
    with client.chat.completions.stream(model="tiny", messages=[]) as chatting:
        assert chatting.get_final_completion().choices[0].message.content == "Hello."
    with client.responses.stream(model="tiny", input="x") as responding:
        assert responding.get_final_response().output_text == "Hello."


def test_of_a_message_is_a_ping_of_anthropics() -> None:
    event = ping("messages", transcript(is_typed=True))
    assert event == b'event: ping\ndata: {"type": "ping"}\n\n'
