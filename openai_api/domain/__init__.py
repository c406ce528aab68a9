"""What a call asks for, how it ended, and the form of OpenAI's errors."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from core import large_json
from core.large_json import Cutting
from metering import domain
from metering.domain import Tokens, Written
from openai_api.domain import messages
from openai_api.errors import InvalidCall

ADDRESS: Final = "/v1/"  # where the API lies
RESPONSES: Final = "responses"
AUDIO: Final = ("audio/transcriptions", "audio/translations")
SPEECH: Final = "audio/speech"
SOUNDED: Final = (*AUDIO, SPEECH)  # whose answers may be a text or a sound
RERANK: Final = "rerank"
STREAMED: Final = frozenset({"chat/completions", "completions", RESPONSES, "audio/transcriptions", messages.PATH})
TYPED: Final = frozenset(
    {RESPONSES, "audio/transcriptions", messages.PATH}
)  # whose events have names, and no [DONE] behind them
PATHS: Final = (
    "chat/completions", "completions", "embeddings", "images/generations", RESPONSES, *AUDIO, SPEECH, *messages.PATHS,
    RERANK,
)  # fmt: skip
# Where a worker puts an answer that is larger than a result may be: one in JSON, a text of another sort; and a sound.
ANSWER_FILE: Final = "answer.json"
ANSWER_FILES: Final = frozenset(
    {ANSWER_FILE, *(f"answer.{ending}" for ending in ("txt", "mp3", "wav", "opus", "ogg", "aac", "flac", "pcm"))}
)
# What else stands in the result beside it.
ANSWER_FIELDS: Final = frozenset({"answer_file", "content_type", "jobfarm", "usage"})
JSON: Final = "application/json"
# The sorts of text that transcriptions come as; whatever else a worker says is text.
TEXTS: Final = frozenset({"text/plain", "text/vtt", "text/srt", "application/x-subrip"})
# The numbers of a response's events: those of a job's n-th claim begin at n - 1 million, as its worker counts them.
EVENTS_OF_A_CLAIM: Final = 1_000_000
# The last event of a response, or of a message.
ENDS: Final = frozenset({"response.completed", "response.incomplete", messages.END})
SOUNDS: Final = frozenset(
    f"audio/{kind}" for kind in ("mpeg", "wav", "x-wav", "opus", "ogg", "aac", "flac", "pcm", "l16")
)
_RESPONSE_ID: Final = re.compile(r"resp_([1-9][0-9]{0,18})")
_RESPONSE_STATUS: Final = {"pending": "queued", "in_progress": "in_progress", "canceled": "cancelled"}
# What a response repeats of its request; its worker says the same of the answer (docs/adr/0084).
_REPEATED: Final[Mapping[str, Any]] = {
    "background": False, "instructions": None, "max_output_tokens": None, "metadata": {}, "parallel_tool_calls": True,
    "previous_response_id": None, "reasoning": None, "store": True, "temperature": None,
    "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_p": None,
    "truncation": "disabled", "user": None,
}  # fmt: skip
LONGEST_MODEL: Final = 200
# Of a text or a list in a call that is longer, a file of its job is made (docs/adr/0135); and so of a conversation.
BODY: Final = Cutting(at=(), over=64_000, most=50_000_000, subject="body")
CONTEXT: Final = replace(BODY, at=("context",), subject="conversation")
# What the clients of OpenAI read before they repeat a call: one that the farm tried often enough is not to be repeated.
NO_RETRY: Final = ("x-should-retry", "false")
LONGEST_RETRY_S: Final = 60  # a longer Retry-After they take for none, and come again within seconds
# The types of OpenAI's errors, by status; what is not here is the caller's fault below 500 and the server's above.
_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
# What the worker's handler writes as the error of a call that its server refused.
_ANSWERED: Final = re.compile(r"The model server answered ([45][0-9]{2}): [^\n]*\n(\{.*\})", re.DOTALL)
_ENDS: Final = {
    "canceled": (410, "job_canceled", "was canceled"),
    "timed_out": (504, "job_timed_out", "timed out"),
    "failed": (502, "job_failed", "failed"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call: where in the API, the model, whether its answer comes in pieces, and its whole body.

    Of a response `is_background` says that nobody waits for it, `previous` is the job of the one that it follows, and
    `context` the conversation until then. `file` is the name of a call's input file. `is_kept`: the job goes on when
    its caller goes away, who may come back for it. `headers` are for the model server. Of an alias: which `models` may
    answer it, by their queues, and those of them that come `later`, each after so many seconds.
    """

    path: str
    model: str
    is_stream: bool
    body: Mapping[str, Any]
    is_background: bool = False
    previous: int | None = None
    context: Sequence[Any] = ()
    file: str | None = None
    is_kept: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    alias: str = ""
    models: Mapping[str, str] = field(default_factory=dict)
    later: Sequence[tuple[str, float]] = ()

    @property
    def payload(self) -> dict[str, Any]:
        """The payload of its job: what of it says something. What was cut out of the body was cut out of it."""
        more = {"context": [*self.context], "file": self.file, "kept": self.is_kept, "headers": {**self.headers}}
        more |= {"alias": self.alias, "models": {**self.models}}
        payload = {"path": self.path, "body": self.body, **{name: value for name, value in more.items() if value}}
        return large_json.gathered(payload)


def answering(payload: Mapping[str, Any], *, queue: str) -> str:
    """The model that answers a call whose job is in this queue."""
    return str((payload.get("models") or {}).get(queue, payload["body"].get("model")))


def call(path: str, body: object, *, file: str | None = None) -> Call:
    """The call that this body makes. Only what the farm itself reads of it is checked. Raises InvalidCall."""
    if not isinstance(body, dict):
        raise InvalidCall(param="body", why="it is a JSON object")
    model, is_stream = body.get("model"), body.get("stream") or False
    if not isinstance(model, str) or not 1 <= len(model) <= LONGEST_MODEL:
        raise InvalidCall(param="model", why="the name of a model is needed; GET /v1/models lists them")
    if not isinstance(is_stream, bool):
        raise InvalidCall(param="stream", why="true or false")
    if is_stream and path not in STREAMED:
        raise InvalidCall(param="stream", why=f"the answers of {path} do not come in pieces")
    if path == SPEECH and body.get("stream_format") == "sse":
        raise InvalidCall(param="stream_format", why="a sound comes whole; leave it out, or say audio")
    of_response = _of_response(body) if path == RESPONSES else {}
    return Call(path=path, model=model, is_stream=is_stream, body=body, file=file, **of_response)


def form(fields: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The body that the fields of a form make: texts, lists where a name ends with [] or comes again, and whether it
    streams. Raises InvalidCall."""
    body: dict[str, Any] = {
        name.removesuffix("[]"): list(values) if name.endswith("[]") or len(values) > 1 else values[0]
        for name, values in fields.items()
    }
    if "stream" in body:
        if body["stream"] not in ("true", "false", "True", "False"):
            raise InvalidCall(param="stream", why="true or false")
        body["stream"] = body["stream"].lower() == "true"
    return body


def response_job(response_id: str) -> int | None:
    """The job of the response with this id; None for what is no id of one."""
    match = _RESPONSE_ID.fullmatch(response_id)
    return None if match is None else int(match[1])


def response_id(job_id: int) -> str:
    return f"resp_{job_id}"


def response(
    body: Mapping[str, Any], *, job_id: int, status: str, created_at: datetime, message: str = ""
) -> dict[str, Any]:
    """The response of a job without an answer: one that waits, runs, was canceled, or ended with this message."""
    error = None
    if status in {"failed", "timed_out"}:
        _, failed = failure(job_id=job_id, status=status, message=message)
        fault = failed["error"] if isinstance(failed.get("error"), dict) else failed
        error = {"code": fault.get("code") or "server_error", "message": str(fault.get("message", message))}
    return {
        "id": response_id(job_id), "object": "response", "created_at": int(created_at.timestamp()),
        "status": _RESPONSE_STATUS.get(status, "failed"), "model": body.get("model"), "output": [], "error": error,
        "incomplete_details": None, "usage": None,
        **{name: value if body.get(name) is None else body[name] for name, value in _REPEATED.items()},
    }  # fmt: skip


def items(value: Any) -> list[Any]:
    """The input of a response as a list of items: a text is the message of a user."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": value}]
    return value if isinstance(value, list) else []


def input_item(item: Any, *, job_id: int, number: int) -> dict[str, Any]:
    """One item of a response's input as it is listed: with an id, and the content of a message in parts."""
    fields = {"type": "message", **item} if isinstance(item, dict) else {"type": "message", "content": str(item)}
    if isinstance(fields.get("content"), str):
        kind = "output_text" if fields.get("role") == "assistant" else "input_text"
        fields["content"] = [{"type": kind, "text": fields["content"]}]
    return {**fields, "id": fields.get("id") or f"item_{job_id}_{number}"}


def is_answer(path: str, value: Any) -> bool:
    """Whether this may be the answer in JSON of a call at this path: an object, or of some servers' rankings a list."""
    return isinstance(value, dict) or (path == RERANK and isinstance(value, list))


def content_type(value: Any) -> str:
    """The type of a text or a sound, of those that we pass on."""
    kind = str(value).partition(";")[0].strip().lower()
    if kind in SOUNDS or kind == "application/octet-stream":
        return kind
    return f"{kind if kind in TEXTS else 'text/plain'}; charset=utf-8"


def expected(payload: Any) -> Tokens:
    """The tokens that a call is going to use, as far as its payload says; pictures and vectors are no tokens out."""
    call = payload if isinstance(payload, Mapping) else {}
    body, context = call.get("body"), call.get("context")
    if isinstance(body, Mapping) and context:
        body = {**body, "input": [context, body.get("input")]}
    read = domain.expected(body, is_answer_text=call.get("path") in STREAMED)
    texts = large_json.placeholders(body, but_in="base64")  # pictures, as Anthropic's API has them, are counted already
    return replace(read, input=min(domain.MOST, read.input + sum(map(_cut_tokens, texts))))


def _cut_tokens(placeholder: Mapping[str, Any]) -> int:
    """The tokens of a text that was cut out; those of a picture are counted by how it begins."""
    size = placeholder.get("size")
    is_text = not str(placeholder.get("begins")).startswith("data:")
    return max(0, size) // 4 if is_text and isinstance(size, int) else 0


def used(result: Any) -> Tokens:
    """What a result says; a ranking has no answer, so what it counts was read."""
    read = domain.used(result)
    return Tokens(read.total) if isinstance(result, Mapping) and isinstance(result.get("results"), list) else read


def output_text(line: str) -> str:
    """What one line of a streamed call's output adds to the text that people read: deltas, and which functions are
    called with what."""
    return text_of(_chunk(line))


def text_of(chunk: Mapping[str, Any]) -> str:
    """The same of one chunk."""
    choices = objects(chunk.get("choices"))
    return _choice_text(next((each for each in choices if not each.get("index")), {})) + _event_text(chunk)


def written(output: str) -> Written:
    """How long the answer is in these lines of output, of all choices; and what their last `usage` says."""
    characters, counted = 0, None
    known: Mapping[str, Any] = {}
    for chunk in map(_chunk, output.split("\n")):
        texts = [*map(_choice_text, objects(chunk.get("choices"))), _event_text(chunk)]
        characters += sum(map(len, texts))
        response = chunk["response"] if isinstance(chunk.get("response"), dict) else chunk
        if chunk.get("type") in ("message_start", "message_delta"):
            known = messages.usage(chunk, known)
            response = {"usage": known} if chunk["type"] == "message_delta" else {}
        counted = response if isinstance(response.get("usage"), dict) else counted
    used = domain.used(counted)
    return Written(characters=characters, used=used if used.total else None)


def _chunk(line: str) -> Mapping[str, Any]:
    try:
        chunk = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return chunk if isinstance(chunk, dict) else {}


def _choice_text(choice: Mapping[str, Any]) -> str:
    delta = choice["delta"] if isinstance(choice.get("delta"), dict) else {}
    functions = [
        each["function"] for each in objects(delta.get("tool_calls")) if isinstance(each.get("function"), dict)
    ]
    texts = [delta.get(name) for name in ("reasoning_content", "reasoning", "content", "refusal")]
    names = [f"{each['name']} " for each in functions if isinstance(each.get("name"), str)]
    arguments = [each.get("arguments") for each in functions]
    return _joined([*texts, choice.get("text"), *names, *arguments])


def _event_text(event: Mapping[str, Any]) -> str:
    item = event.get("item") if event.get("type") == "response.output_item.added" else None
    names = [f"{each['name']} " for each in objects([item]) if isinstance(each.get("name"), str)]
    return _joined([*names, event.get("delta"), messages.piece_text(event)])


def _joined(texts: Iterable[Any]) -> str:
    return "".join(each for each in texts if isinstance(each, str))


def objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def error_event(body: Mapping[str, Any], *, number: int) -> dict[str, Any]:
    fault = body["error"] if isinstance(body.get("error"), dict) else {"message": str(body.get("error", ""))}
    known = {"code": fault.get("code"), "message": fault.get("message"), "param": fault.get("param")}
    more = {name: fault[name] for name in ("job_id",) if name in fault}
    return {"type": "error", "sequence_number": number, **known, **more}


def _of_response(body: Mapping[str, Any]) -> dict[str, Any]:
    if body.get("conversation") is not None:
        raise InvalidCall(param="conversation", why="the farm keeps none; previous_response_id continues one")
    is_background, previous = body.get("background") or False, body.get("previous_response_id")
    if not isinstance(is_background, bool):
        raise InvalidCall(param="background", why="true or false")
    if is_background and body.get("store") is False:
        raise InvalidCall(param="store", why="a response in the background is one that is kept")
    if previous is None:
        return {"is_background": is_background}
    if not isinstance(previous, str):
        raise InvalidCall(param="previous_response_id", why="the id of a response")
    # What is no id of ours is the job 0, which is nobody's.
    return {"is_background": is_background, "previous": response_job(previous) or 0}


def error(message: str, *, status: int, code: str | None, param: str | None = None, **more: Any) -> dict[str, Any]:
    """An error in OpenAI's form. `more` are the farm's own facts, such as the job's id."""
    usual = "invalid_request_error" if status < 500 else "server_error"
    form = {"message": message, "type": _TYPES.get(status, usual), "param": param, "code": code}
    return {"error": {**form, **more}}


def refused(body: Mapping[str, Any], *, status: int, path: str = "") -> tuple[int, Mapping[str, Any]]:
    """A refusal of the farm (status and body) in the form of the calls at this path, below /v1/; what a model server
    answered stays as it is."""
    if not isinstance(body.get("error"), str):
        return status, in_form(body, status=status, path=path)
    status = 400 if status == 422 else status  # OpenAI's status for fields that do not fit
    code = "invalid_value" if body["error"] == "invalid" else body["error"]
    [fault, *_] = body.get("faults") or [{}]
    param = body.get("param", fault.get("field"))
    refusal = error(str(body.get("message", "")), status=status, code=code, param=param)
    return status, in_form(refusal, status=status, path=path)


def in_form(body: Mapping[str, Any], *, status: int, path: str) -> Mapping[str, Any]:
    """An error in OpenAI's form, or a model server's, as the clients of the calls at this path read it."""
    return messages.error(body, status=status) if messages.is_at(path) else body


def advice(headers: Mapping[str, str]) -> Mapping[str, str]:
    """What a refusal with these headers says to OpenAI's clients besides: not to repeat by themselves what has to wait
    longer than they do."""
    wait = headers.get("Retry-After", "")
    return dict([NO_RETRY]) if wait.isdecimal() and int(wait) > LONGEST_RETRY_S else {}


def failure(*, job_id: int, status: str, message: str) -> tuple[int, Mapping[str, Any]]:
    """The HTTP status and the body for a call whose job ended without success: what the model server answered, word
    for word, where that is why."""
    if status == "failed" and (answered := _ANSWERED.fullmatch(message)):
        try:
            return int(answered[1]), json.loads(answered[2])
        except (ValueError, RecursionError):
            pass
    number, code, how = _ENDS[status]
    last = message.strip().splitlines()[-1:]
    sentence = f"Job {job_id} {how}{': ' if last else '.'}{''.join(last)}"
    return number, error(sentence, status=number, code=code, job_id=job_id)


def broken(job_id: int, *, why: str | None = None) -> Mapping[str, Any]:
    """The error for a stream whose attempt is over after its first token: what another writes is another answer. `why`
    it failed; None: its worker was lost."""
    message = f"The worker of job {job_id} was lost in the middle of its answer."
    if why is not None:
        [reason, *_] = why.splitlines() or [""]
        message = f"Job {job_id} failed in the middle of its answer and is tried again: {reason}"
    return error(message, status=502, code="stream_broken", job_id=job_id)


def interrupted(job_id: int, *, path: str) -> Mapping[str, Any]:
    """The error for who waits in a process that ends."""
    message = f"This server stops. Your call goes on as job {job_id}: ask for /v1/{path}/{job_id}, or /events below it."
    return error(message, status=503, code="interrupted", job_id=job_id)
