"""Calls of OpenAI's API as the handlers that come along know them: what their payloads say and what is wrong with one
that cannot be used, what OpenTelemetry's conventions want said of them (`gen_ai.*`), and how answers are handed in.

On the span of an attempt are names and numbers, never a word of a prompt or an answer.
https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

import base64
import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from jobfarm_client.wire import dumps
from jobfarm_worker import observing
from jobfarm_worker.errors import Failed
from jobfarm_worker.handlers.chunks import as_object, objects
from jobfarm_worker.job import Job
from jobfarm_worker.protocol import size_of_json, storable

FILE = "answer.json"
TEXT_FILE = "answer.txt"
LARGEST_RESULT = 64_000  # bytes: what is longer the farm passes on without reading it
LONGEST_REFUSAL = 15_000  # characters, of the 20,000 that are kept of an error
_SOUNDS = {
    "audio/mpeg": "mp3", "audio/wav": "wav", "audio/x-wav": "wav", "audio/opus": "opus", "audio/ogg": "ogg",
    "audio/aac": "aac", "audio/flac": "flac",
}  # fmt: skip
_ENDINGS = ((b"\xff\xd8", "jpg"), (b"RIFF", "webp"))  # by how the file begins; all others are PNG
_OPERATIONS: Final = {
    "chat/completions": "chat", "responses": "chat", "messages": "chat", "completions": "text_completion",
    "embeddings": "embeddings", "images/generations": "generate_content",
}  # fmt: skip
# By the names that the three dialects have for them.
_USAGE: Final = {
    "gen_ai.usage.input_tokens": ("prompt_tokens", "input_tokens"),
    "gen_ai.usage.output_tokens": ("completion_tokens", "output_tokens"),
}


def prompt_of(payload: Any) -> str:
    """The prompt of an image job; raises Failed, for good, when there is none."""
    prompt = as_object(payload).get("prompt")
    if not isinstance(prompt, str) or not prompt.strip():
        raise Failed('The payload needs a text: {"prompt": "..."}.', retryable=False)
    return prompt.strip()


def messages_of(payload: Any) -> list[dict[str, Any]]:
    """The messages of a chat job, from `messages` or `prompt`; raises Failed, for good, without any."""
    messages = as_object(payload).get("messages")
    if messages is None:
        return [{"role": "user", "content": prompt_of(payload)}]
    known = objects(messages)
    if not known or known != messages or not all(isinstance(m.get("role"), str) and m.get("content") for m in known):
        raise Failed('"messages" is a list of {"role": "user", "content": "..."}.', retryable=False)
    return known


def turns_of(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """These messages of a chat, where users and systems say parts, as every model's template knows them: many have no
    place for two turns of the user, nor for a system behind others, which is the user's then."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        before = turns[-1]["role"] if turns else "system"
        role = "user" if message["role"] == "system" != before else message["role"]
        if turns and role == before and role in ("system", "user"):
            turns[-1]["content"] += message["content"]
        else:
            turns.append({**message, "role": role})
    return [{**turn, "content": content_of(turn["content"])} for turn in turns]


def content_of(parts: Any) -> Any:
    """The content of a chat's message: a text where nothing else is in it, which every model's template knows."""
    if not isinstance(parts, list) or any(part["type"] != "text" for part in parts):
        return parts
    return "\n\n".join(part["text"] for part in parts if part["text"])


def headers_of(payload: Any) -> dict[str, str]:
    """The headers of a call that the model server gets: whoever submits a payload writes no others."""
    known = as_object(as_object(payload).get("headers"))
    named = {name: known.get(name) for name in ("anthropic-version", "anthropic-beta")}
    return {name: value for name, value in named.items() if isinstance(value, str) and value.isprintable()}


def call_of(payload: Any, *, queue: str = "") -> tuple[str, dict[str, Any]]:
    """Path and body of a call of OpenAI's API, for the model that the queue of its job says where several may answer
    it; raises Failed, for good, when it is none."""
    path, body = map(as_object(payload).get, ("path", "body"))
    is_path = isinstance(path, str) and re.fullmatch(r"[a-z]+(/[a-z_]+)*", path) is not None
    if not is_path or not isinstance(body, dict):
        raise Failed('The payload is {"path": "chat/completions", "body": {...}}.', retryable=False)
    model = as_object(payload.get("models")).get(queue)
    return str(path), {**body, "model": model} if model else body


def note_call(path: str, body: Mapping[str, Any]) -> None:
    """Say what is asked of which model. The server speaks OpenAI's API, whoever made it."""
    observing.describe_span({
        "gen_ai.operation.name": _OPERATIONS.get(path, path), "gen_ai.provider.name": "openai",
        "gen_ai.request.model": body.get("model"), "gen_ai.request.stream": bool(body.get("stream")) or None,
        "gen_ai.request.max_tokens": body.get("max_completion_tokens", body.get("max_tokens")),
        "gen_ai.request.temperature": body.get("temperature"),
    })  # fmt: skip


def note_first_token(seconds: float) -> None:
    """Say how long the model took to its first token."""
    observing.describe_span({"gen_ai.response.time_to_first_chunk": seconds})


def note_answer(answer: Any) -> None:
    """Say who answered, how it ended, and what it took; nothing of what is no answer of a known form."""
    if not isinstance(answer, dict):
        return
    usage = as_object(answer.get("usage"))
    counts = {name: next((usage[one] for one in ones if one in usage), None) for name, ones in _USAGE.items()}
    reasons = [choice.get("finish_reason") for choice in objects(answer.get("choices"))] or [answer.get("stop_reason")]
    ends = tuple(str(reason) for reason in reasons if reason)
    observing.describe_span({
        "gen_ai.response.model": answer.get("model"), "gen_ai.response.id": answer.get("id"),
        "gen_ai.response.finish_reasons": ends or None, **counts,
    })  # fmt: skip


def handed_in(job: Job, path: str, answer: Any) -> Any:
    """The result for this answer: itself, or the file that holds it. Pictures in it are handed in as files besides, so
    that the job's page shows them."""
    note_answer(answer)
    if path.startswith("images/") and isinstance(answer, dict):
        for number, picture in enumerate(_pictures(answer)):
            ending = next((ending for start, ending in _ENDINGS if picture.startswith(start)), "png")
            job.file(f"image-{number}.{ending}", picture)
    if size_of_json(answer) <= LARGEST_RESULT:
        return answer
    job.file(FILE, dumps(answer).encode())
    # What the farm counts, and what it says of the answer itself.
    beside = {name: as_object(answer).get(name) for name in ("usage", "jobfarm")}
    return {"answer_file": FILE} | {name: value for name, value in beside.items() if isinstance(value, dict)}


def handed_in_text(job: Job, text: str, *, content_type: str) -> dict[str, str]:
    """The result for an answer that is no JSON, such as subtitles: itself, or the file that holds it."""
    if size_of_json(text) <= LARGEST_RESULT:
        return {"answer_text": storable(text), "content_type": content_type}
    job.file(TEXT_FILE, text.encode())
    return {"answer_file": TEXT_FILE, "content_type": content_type}


def handed_in_sound(job: Job, sound: bytes, *, content_type: str) -> dict[str, str]:
    """The result for an answer that is spoken: the file that holds it."""
    kind = content_type.partition(";")[0].strip().lower()
    name = f"answer.{_SOUNDS.get(kind, 'pcm')}"
    job.file(name, sound)
    return {"answer_file": name, "content_type": kind}


def refused(status: int, body: dict[str, Any], *, message: str, retryable: bool) -> Failed:
    """The failure that the farm passes on to the caller: with this status and this body, word for word. Its form is
    known to the farm too: a sentence, and the body in the last line."""
    sentence = f"The model server answered {status}: {' '.join(message.split())}"[:1000]
    text = json.dumps(body)
    return Failed(sentence if len(text) > LONGEST_REFUSAL else f"{sentence}\n{text}", retryable=retryable)


def unsupported(param: str, why: str) -> Failed:
    """The refusal of a field, in OpenAI's form; for good."""
    return invalid(f"{param}: {why}", param=param, code="unsupported_value")


def invalid(message: str, *, code: str, status: int = 400, param: str | None = None) -> Failed:
    """The refusal of a call that makes no sense, in OpenAI's form; for good."""
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return refused(status, {"error": error}, message=message, retryable=False)


def _pictures(answer: dict[str, Any]) -> Iterator[bytes]:
    for entry in objects(answer.get("data")):
        if isinstance(entry.get("b64_json"), str):
            with suppress(ValueError):
                yield base64.b64decode(entry["b64_json"], validate=True)


def encoded(answer: Any, body: Mapping[str, Any]) -> Any:
    """The answer with its vectors as `encoding_format` says: lists of numbers, or these as floats in base64."""
    wanted = body.get("encoding_format") or "float"
    if (change := {"base64": _encoded, "float": _decoded}.get(str(wanted))) is not None:
        for entry in objects(as_object(answer).get("data")):
            entry["embedding"] = change(entry.get("embedding"))
    return answer


def _encoded(vector: Any) -> Any:
    if not isinstance(vector, list):
        return vector
    try:
        return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
    except (struct.error, OverflowError):  # no numbers: as the server has it
        return vector


def _decoded(vector: Any) -> Any:
    if not isinstance(vector, str):
        return vector
    try:
        data = base64.b64decode(vector, validate=True)
        return [*struct.unpack(f"<{len(data) // 4}f", data)]
    except (ValueError, struct.error):
        return vector
