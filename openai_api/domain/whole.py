"""Events of a stream whose answer came whole: each item and each text in one piece, since clients add up pieces."""

from collections.abc import Iterator, Mapping
from typing import Any

from openai_api import domain
from openai_api.domain import messages


def events(path: str, answer: Mapping[str, Any], *, number: int, is_begun: bool) -> Iterator[Mapping[str, Any]]:
    """The events that make this answer of a call at this path; those of a response are numbered from `number` on, and
    one that `is_begun` is not created again."""
    if path == messages.PATH:
        yield from messages.events(answer)
    elif path == domain.RESPONSES:
        made = [*_of_response(answer)][1 if is_begun else 0 :]
        yield from ({**event, "sequence_number": place} for place, event in enumerate(made, start=number))
    elif path in domain.AUDIO:
        yield {"type": "transcript.text.done", **answer}
    elif path == "chat/completions":
        choices = [_delta(choice) for choice in domain.objects(answer.get("choices"))]
        yield {**answer, "object": "chat.completion.chunk", "choices": choices}
    else:
        yield answer


def _delta(choice: Mapping[str, Any]) -> dict[str, Any]:
    """A choice of a whole answer as one of a chunk."""
    message = choice["message"] if isinstance(choice.get("message"), Mapping) else {}
    calls = [{**call, "index": number} for number, call in enumerate(domain.objects(message.get("tool_calls")))]
    rest = {name: value for name, value in choice.items() if name != "message"}
    return {**rest, "delta": {**message, **({"tool_calls": calls} if calls else {})}}


def _of_response(response: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    for index, item in enumerate(domain.objects(response.get("output"))):
        parts = domain.objects(item.get("content"))
        opened = {**item, "status": "in_progress", **({"content": []} if parts else {})}
        yield {"type": "response.output_item.added", "output_index": index, "item": opened}
        for place, part in enumerate(parts):
            at = {"item_id": item.get("id"), "output_index": index, "content_index": place}
            yield from ({**at, **event} for event in _of_part(part))
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    yield {"type": f"response.{response.get('status', 'completed')}", "response": response}


def _of_part(part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    text = part["text"] if part.get("type") == "output_text" and isinstance(part.get("text"), str) else ""
    yield {"type": "response.content_part.added", "part": {**part, **({"text": ""} if text else {})}}
    if text:
        yield {"type": "response.output_text.delta", "delta": text, "logprobs": []}
        yield {"type": "response.output_text.done", "text": text, "logprobs": []}
    yield {"type": "response.content_part.done", "part": part}
