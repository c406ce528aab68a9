"""Messages of the worker's WebSocket, checked, and the answers to them."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from pydantic import BaseModel, TypeAdapter

from core.values import Body, loads
from jobs.errors import InvalidValue, PayloadTooLarge
from jobs.protocol.jobs import JobId
from jobs.protocol.verbs import VERBS, Verb

_JOB_ID: TypeAdapter[int] = TypeAdapter(JobId)
_ENCODER = json.JSONEncoder(separators=(",", ":"), default=str)
_HEAD = 1000  # characters
_TEXT = r'"(?:[^"\\]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*"'
_PLAIN = rf"(?:{_TEXT}|-?(?:0|[1-9][0-9]*)|true|false|null)"
_HEAD_WITH_REF = re.compile(rf'\s*{{(?:\s*{_TEXT}\s*:\s*{_PLAIN}\s*,)*?\s*"ref"\s*:\s*(?P<ref>{_PLAIN})\s*[,}}]')


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call of a verb by a worker. `ref` is whatever the worker put there; the answer carries it back."""

    name: str
    verb: Verb
    ref: Any
    job_id: int | None
    body: Body


class Unreadable(Exception):
    """A message that is refused: why, and the `ref` it came with if that could be read."""

    def __init__(self, why: Exception, *, ref: Any) -> None:
        self.why = why
        self.ref = ref
        super().__init__(str(why))


def read(text: str | None) -> Call:
    """The call in this message. Raises Unreadable, whatever the message is."""
    ref = None
    try:
        if (size := _size(text)) > (limit := settings.JOBFARM["BODY_BYTES"]):
            ref = _ref_at_head(text or "")
            raise PayloadTooLarge(what="message", size=size, limit=limit)
        message = _message(text)
        ref = message.pop("ref", None)
        return _call(message, ref)
    except Exception as why:  # answered to the worker; what is no refusal is logged there
        raise Unreadable(why, ref=ref) from why


def answer(call: Call, body: BaseModel) -> str:
    return _dumps({**body.model_dump(mode="json"), "type": call.name, "ref": call.ref})


def error(ref: Any, *, status: int, body: Mapping[str, Any]) -> str:
    return _dumps({**body, "status": status, "type": "error", "ref": ref})


def work() -> str:
    """The push to a worker that waits: there is something for it."""
    return _dumps({"type": "work", "available": True})


def share() -> str:
    """The push to a worker that may have jobs lie ready while another one waits for work."""
    return _dumps({"type": "share"})


def stop(job_id: int, *, fence: int, reason: str) -> str:
    """The push to a worker whose job was taken from it. `fence`: which claim of it; the worker may have got it
    anew."""
    return _dumps({"type": "stop", "job": job_id, "fence": fence, "reason": reason})


def drained(is_drained: bool) -> str:
    """The push to a worker that was drained, or is not any more."""
    return _dumps({"type": "drained", "drained": is_drained})


def _size(text: str | None) -> int:
    if text is None or text.isascii():
        return len(text or "")
    return len(text.encode())


def _ref_at_head(text: str) -> Any:
    """The `ref` of a message too large to be read, if it stands near its beginning; else None."""
    match = _HEAD_WITH_REF.match(text[:_HEAD])
    return None if match is None else json.loads(match["ref"])


def _message(text: str | None) -> dict[str, Any]:
    if text is None:
        raise InvalidValue(field="message", why="a text frame with a JSON object is wanted, not a binary one")
    message = loads(text)
    if not isinstance(message, dict):
        raise InvalidValue(field="message", why="a JSON object is wanted")
    return message


def _call(message: dict[str, Any], ref: Any) -> Call:
    name = message.pop("type", None)
    verb = VERBS.get(name) if isinstance(name, str) else None
    if verb is None or not isinstance(name, str):
        raise InvalidValue(field="type", why=f"one of {', '.join(VERBS)} is wanted")
    job_id = _job_id(message) if verb.about_a_job else None
    return Call(name=name, verb=verb, ref=ref, job_id=job_id, body=verb.body.model_validate(message))


def _job_id(message: dict[str, Any]) -> int:
    try:
        return _JOB_ID.validate_python(message.pop("job", None))
    except ValueError:
        raise InvalidValue(field="job", why="the id of a job is wanted") from None


def _dumps(message: Mapping[str, Any]) -> str:
    return _ENCODER.encode(message)
