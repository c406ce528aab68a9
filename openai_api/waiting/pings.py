"""What a stream says while nothing comes: an event in the words of its call, since clients that give up on a silent
stream look at events, and not at comments."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from openai_api import domain
from openai_api.http import Awaited
from openai_api.waiting.transcript import Transcript

# Of calls whose events are chunks: the beginning of an id, the object, and a choice that says nothing.
_CHUNKS: Final[Mapping[str, tuple[str, str, Mapping[str, Any]]]] = {
    "chat/completions": ("chatcmpl", "chat.completion.chunk", {"delta": {}}),
    "completions": ("cmpl", "text_completion", {"text": ""}),
}


def event(note: Awaited, transcript: Transcript, *, is_first: bool) -> bytes:
    """One that adds nothing to the answer, and that nobody resumes behind."""
    fields = _fields(note, transcript, is_first=is_first)
    name = f"event: {fields['type']}\n" if "type" in fields else ""
    return f"{name}data: {json.dumps(fields)}\n\n".encode()


def _fields(note: Awaited, transcript: Transcript, *, is_first: bool) -> dict[str, Any]:
    now = datetime.now(UTC)  # noqa: TID251 (as a model server says when it answers; nothing is compared with it)
    if note.path == domain.RESPONSES:
        # A response begins with `created`, whoever says so first; its number is that of what the client has.
        kind = "created" if is_first and not transcript.has_passed else "in_progress"
        response = domain.response({"model": note.model}, job_id=note.job_id, status=transcript.status, created_at=now)
        number = max(transcript.next_number - 1, 0)
        return {"type": f"response.{kind}", "sequence_number": number, "response": response}
    if note.path not in _CHUNKS:
        return {"type": "transcript.text.delta", "delta": ""}
    prefix, kind, silence = _CHUNKS[note.path]
    made = {"id": f"{prefix}-{note.job_id}", "object": kind, "created": int(now.timestamp()), "model": note.model}
    head = {name: transcript.latest.get(name) or value for name, value in made.items()}
    return {**head, "choices": [{"index": 0, **silence, "logprobs": None, "finish_reason": None}]}
