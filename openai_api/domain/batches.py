"""Files by their names and purposes; batches: what a line of an input file asks for, how far a batch is, and the lines
of its output and error files."""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from openai_api import domain
from openai_api.domain import ADDRESS, PATHS, Call
from openai_api.errors import InvalidCall

BATCH: Final = "batch"  # the purpose of a file that a batch reads
OUTPUT: Final = "batch_output"  # and of those that it writes
LONGEST_NAME: Final = 255
SHORTEST_S, LONGEST_S = 3600, 2_592_000  # `expires_after[seconds]`, as at OpenAI
_PURPOSE: Final = re.compile(r"[a-z][a-z0-9_-]{0,49}")
_SUFFIX: Final = re.compile(r"\.[A-Za-z0-9]{1,10}")
_HEX: Final = re.compile(r"[0-9a-f]{32}")
# Calls whose answers are JSON and short enough for a line; those that this farm does not serve are left out.
ENDPOINTS: Final = tuple(
    path for path in ("chat/completions", "completions", "embeddings", "responses") if path in PATHS
)
MOST_LINES: Final = 50_000  # as at OpenAI
MOST_ERRORS: Final = 100  # that a refused file lists
LONGEST_CUSTOM_ID: Final = 512
LONGEST_WINDOW: Final = timedelta(days=7)
MOST_METADATA: Final = 16  # pairs, as at OpenAI, each of at most so many characters:
LONGEST_METADATA: Final = (64, 512)
PRIORITY: Final = -10  # of the jobs of a batch: below that of calls whose callers wait
LINES_OF_SLICE: Final = 500  # submitted in one transaction of some 30 ms
BYTES_OF_SLICE: Final = 2_000_000  # and no more than so many, where lines are long
MOST_AHEAD: Final = 10_000  # jobs of one person's batches that have yet to end; more are submitted as those do
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")  # NUL, and halves of surrogate pairs: no row can hold them
_WINDOW: Final = re.compile(r"([1-9][0-9]{0,2})([hd])")


class BatchStatus(StrEnum):
    """How a batch stands, in OpenAI's words."""

    VALIDATING = "validating"
    IN_PROGRESS = "in_progress"
    FINALIZING = "finalizing"
    CANCELLING = "cancelling"
    COMPLETED = "completed"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


LIVE: Final = frozenset(
    {BatchStatus.VALIDATING, BatchStatus.IN_PROGRESS, BatchStatus.FINALIZING, BatchStatus.CANCELLING}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of an input file: the name that its caller knows it by, and the call."""

    custom_id: str
    call: Call


class LineError(Exception):
    """What is wrong with a line, in OpenAI's form but for the line's number."""

    def __init__(self, code: str, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.code, self.message, self.param = code, message, param

    def at(self, number: int) -> dict[str, Any]:
        return {"code": self.code, "line": number, "message": self.message, "param": self.param}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How the job of a line ended: a job's status, the answer as JSON (of a success), or the error. Of what hooks
    refused `refused`, and the error as the answer."""

    job_id: int
    status: str
    answer: str | None = None
    error: str = ""


def check_file(*, purpose: str, name: str) -> None:
    """Raise InvalidCall for what cannot be a file's purpose or name."""
    if not _PURPOSE.fullmatch(purpose) or purpose == OUTPUT:
        raise InvalidCall(param="purpose", why='a word such as "batch"')
    if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
        raise InvalidCall(param="file", why=f"a name of 1 to {LONGEST_NAME} printable characters")


def checked_expiry(seconds: float) -> float:
    """`seconds`, if a file may be kept for so long. Raises InvalidCall."""
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise InvalidCall(param="expires_after", why=f"from {SHORTEST_S} to {LONGEST_S} seconds")
    return seconds


def stored_name(name: str) -> str:
    """What the upload of a file with this name is called: its ending says its type, the rest may be anything."""
    suffix = PurePath(name).suffix
    return f"file{suffix if _SUFFIX.fullmatch(suffix) else ''}"


def id_of(public_id: str, *, prefix: str) -> UUID | None:
    """The id that "file-..." names, or "batch_..."; None for what is none."""
    name = public_id.removeprefix(prefix)
    return UUID(name) if name != public_id and _HEX.fullmatch(name) else None


def endpoint(url: str) -> str:
    """The path of the calls of a batch, "chat/completions". Raises InvalidCall."""
    path = url.removeprefix(ADDRESS)
    if path not in ENDPOINTS or not url.startswith(ADDRESS):
        listed = ", ".join(ADDRESS + each for each in ENDPOINTS)
        raise InvalidCall(param="endpoint", why=f"one of {listed}")
    return path


def window(text: str, *, retention: timedelta) -> timedelta:
    """How long a batch may take, of "24h" or the like. `retention`: how long the farm keeps jobs that have ended, whose
    answers are read at the batch's end. Raises InvalidCall."""
    match = _WINDOW.fullmatch(text)
    if match is None:
        raise InvalidCall(param="completion_window", why='such as "24h", or "7d" at most')
    length = int(match[1]) * (timedelta(hours=1) if match[2] == "h" else timedelta(days=1))
    if length > LONGEST_WINDOW:
        raise InvalidCall(param="completion_window", why="7 days at most")
    if length > retention:
        kept = f"this farm keeps jobs for {retention.days} days after their end"
        raise InvalidCall(param="completion_window", why=f"{kept}, and a batch needs them for so long")
    return length


def metadata(value: Any) -> dict[str, str]:
    """What a caller notes on a batch: None is nothing. Raises InvalidCall."""
    pairs = {} if value is None else value
    if not isinstance(pairs, dict) or len(pairs) > MOST_METADATA:
        raise InvalidCall(param="metadata", why=f"an object of at most {MOST_METADATA} texts")
    for name, text in pairs.items():
        if not isinstance(text, str) or any(map(_is_too_long, (name, text), LONGEST_METADATA)):
            raise InvalidCall(param="metadata", why="names of 64 characters and texts of 512 at most")
    return pairs


def line(value: object, *, endpoint: str, models: Collection[str] | None) -> Line:
    """The line that this JSON value says, for a batch of calls at this path and of these models (None: of any).

    Raises LineError.
    """
    if not isinstance(value, dict):
        raise LineError("invalid_json_line", "This line is no JSON object.")
    custom_id = value.get("custom_id")
    if not isinstance(custom_id, str) or not 1 <= len(custom_id) <= LONGEST_CUSTOM_ID or _UNSTORABLE.search(custom_id):
        why = f"custom_id: a text of 1 to {LONGEST_CUSTOM_ID} characters is needed."
        raise LineError("missing_required_parameter", why, param="custom_id")
    if value.get("method") != "POST":
        raise LineError("invalid_method", "method: POST is the only one.", param="method")
    if value.get("url") != ADDRESS + endpoint:
        raise LineError("invalid_url", f"url: {ADDRESS}{endpoint} is this batch's endpoint.", param="url")
    return Line(custom_id=custom_id, call=_call(value.get("body"), endpoint=endpoint, models=models))


def answered(ended: Ended, custom_id: str, *, ends_as: BatchStatus) -> tuple[bool, str]:
    """Whether this line goes to the output file, else to that of errors, and the line itself."""
    if ended.status == "success":
        return True, _line(ended.job_id, custom_id, status=200, body=ended.answer or "null")
    if ended.status == "refused":
        return False, _line(ended.job_id or None, custom_id, status=400, body=ended.answer or "null")
    if ended.status in {"canceled", "timed_out"} and ends_as is not BatchStatus.COMPLETED:
        return False, unanswered(custom_id, ends_as=ends_as, job_id=ended.job_id)
    if ended.status == "deleted":
        error = _error("job_deleted", f"Job {ended.job_id} was deleted before its batch ended.")
        return False, _line(ended.job_id, custom_id, error=error)
    status, body = domain.failure(job_id=ended.job_id, status=ended.status, message=ended.error)
    why = body.get("error")
    if isinstance(why, Mapping) and "job_id" in why:  # no answer of a model server, but what the farm says
        return False, _line(ended.job_id, custom_id, error=_error(why["code"], why["message"]))
    return False, _line(ended.job_id, custom_id, status=status, body=json.dumps(body))


def unanswered(custom_id: str, *, ends_as: BatchStatus, job_id: int | None = None) -> str:
    """The line of a call that did not come to its end, in the file of errors."""
    if ends_as is BatchStatus.EXPIRED:
        code, message = ("batch_expired", "This request was not carried out before the completion window ended.")
    else:
        code, message = "batch_cancelled", "This request was not carried out before the batch was cancelled."
    return _line(job_id, custom_id, error=_error(code, message))


def look_again_in_s(*, moved: int, outstanding: int, waited_s: float) -> float:
    """When to look at the jobs of a batch again, of which so many have yet to end and so many ended while `waited_s`
    passed: a tenth of the time that the others will take, or twice as late where none ended; 0.25 to 10 s."""
    if moved:
        return min(10.0, max(0.25, waited_s * outstanding / moved / 10))
    return min(10.0, max(0.25, 2 * waited_s))


def _is_too_long(text: str, longest: int) -> bool:
    return len(text) > longest or _UNSTORABLE.search(text) is not None


def _call(body: object, *, endpoint: str, models: Collection[str] | None) -> Call:
    try:
        call = domain.call(endpoint, body)
    except InvalidCall as refusal:
        raise LineError("invalid_request", refusal.message, param=f"body.{refusal.param}") from None
    if call.is_stream:
        raise LineError("invalid_request", "stream: the answers of a batch do not stream.", param="body.stream")
    if call.previous is not None:
        why = "previous_response_id: the responses of a batch follow no other."
        raise LineError("invalid_request", why, param="body.previous_response_id")
    if models is not None and call.model not in models:
        names = ", ".join([*models][:20]) or "none"
        why = f"No worker offers the model {call.model!r} now. Offered are: {names}."
        raise LineError("model_not_found", why, param="body.model")
    return call


def _error(code: str, message: str) -> dict[str, str]:
    return {"code": code, "message": message}


def _line(
    job_id: int | None, custom_id: str, *, status: int = 0, body: str = "", error: Mapping[str, str] | None = None
) -> str:
    """One line of a file. The body is JSON already, and is not read for this."""
    head = f'"id": "batch_req_{job_id or 0}", "custom_id": {json.dumps(custom_id)}'
    answer = f'{{"status_code": {status}, "request_id": "{job_id}", "body": {body}}}' if status else "null"
    return f'{{{head}, "response": {answer}, "error": {json.dumps(error)}}}\n'
