"""What a call asks for, how it ended, and the form of OpenAI's errors."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from metering.domain import tokens as metering
from metering.domain.tokens import Tokens
from openai_api.errors import InvalidCall

ADDRESS: Final = "/v1/"  # where the API lies
STREAMED: Final = frozenset({"chat/completions", "completions"})
PATHS: Final = ("chat/completions", "completions", "embeddings", "images/generations")
ANSWER_FILE: Final = "answer.json"  # where a worker puts an answer that is larger than a result may be
LONGEST_MODEL: Final = 200
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
    """One call: where in the API, the model, whether its answer comes in pieces, and its whole body."""

    path: str
    model: str
    is_stream: bool
    body: Mapping[str, Any]

    @property
    def payload(self) -> dict[str, Any]:
        """The payload of its job."""
        return {"path": self.path, "body": self.body}


def call(path: str, body: object) -> Call:
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
    return Call(path=path, model=model, is_stream=is_stream, body=body)


def expected(payload: Any) -> Tokens:
    """The tokens that a call is going to use, as far as its payload says; pictures and vectors are no tokens out."""
    call = payload if isinstance(payload, Mapping) else {}
    return metering.expected(call.get("body"), is_answer_text=call.get("path") in STREAMED)


def error(
    message: str, *, status: int, code: str | None, param: str | None = None, **more: Any
) -> dict[str, Any]:
    """An error in OpenAI's form. `more` are the farm's own facts, such as the job's id."""
    usual = "invalid_request_error" if status < 500 else "server_error"
    form = {"message": message, "type": _TYPES.get(status, usual), "param": param, "code": code}
    return {"error": {**form, **more}}


def refused(body: Mapping[str, Any], *, status: int) -> tuple[int, Mapping[str, Any]]:
    """A refusal of the farm (status and body) in OpenAI's form; what a model server answered
    stays as it is."""
    if not isinstance(body.get("error"), str):
        return status, body
    status = 400 if status == 422 else status  # OpenAI's status for fields that do not fit
    message, code = str(body.get("message", "")), str(body.get("error", ""))
    return status, error(message, status=status, code=code, param=body.get("param"))


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


def broken(job_id: int) -> Mapping[str, Any]:
    """The error for a stream whose worker was lost after its first token: what another writes is another answer."""
    message = f"The worker of job {job_id} was lost in the middle of its answer."
    return error(message, status=502, code="stream_broken", job_id=job_id)


def interrupted(job_id: int, *, path: str) -> Mapping[str, Any]:
    """The error for who waits in a process that ends."""
    message = f"This server stops. Your call goes on as job {job_id}: ask for /v1/{path}/{job_id}, or /events below it."
    return error(message, status=503, code="interrupted", job_id=job_id)
