"""What HTTP adds: the path of a call, its body, and its answers."""

import json
import re
from typing import Any, Final

from django.core.files.storage import default_storage
from django.http import HttpRequest, HttpResponse
from django.urls import register_converter

from jobs import http as jobs_http
from jobs import operations as jobs
from jobs.errors import InvalidValue
from jobs.protocol import values
from openai_api import domain
from openai_api.errors import InvalidCall
from openai_api.operations import Ended, Made

JOB_ID: Final = "X-Job-Id"
BACKGROUND: Final = "X-Background"
LABELS: Final = {"requires": "X-Requires", "prefers": "X-Prefers"}
# What the clients of OpenAI read before they repeat a call: one that the farm tried often enough is not to be repeated.
NO_RETRY: Final = ("x-should-retry", "false")
_KEY: Final = re.compile(r"[ -~]{1,255}")


class CallConverter:
    """The path of a call in the API."""

    regex = "|".join(domain.PATHS)

    def to_python(self, value: str) -> str:
        """The path."""
        return value

    def to_url(self, value: str) -> str:
        """The path."""
        return value


register_converter(CallConverter, "openaicall")


def call(request: HttpRequest, path: str) -> domain.Call:
    """The call of this request. Raises InvalidCall, and NotJsonError where its body is no JSON."""
    return domain.call(path, values.loads(request.body))


def idempotency_key(request: HttpRequest) -> str | None:
    """The key of a call that may be repeated, if it has one. Raises InvalidCall."""
    key = request.headers.get("Idempotency-Key")
    if key is not None and not _KEY.fullmatch(key):
        raise InvalidCall(param="Idempotency-Key", why="1 to 255 printable ASCII characters")
    return key


def labels(request: HttpRequest) -> dict[str, dict[str, str] | None]:
    """What this call requires and prefers of its worker's labels, by headers. Raises InvalidCall."""
    try:
        return {name: jobs_http.conditions(request, header) for name, header in LABELS.items()}
    except InvalidValue as refusal:
        raise InvalidCall(param=refusal.field, why=refusal.numbers["why"]) from None


def waits(made: Made, *, user_id: int, is_stream: bool, is_kept: bool) -> HttpResponse:
    """The answer for who waits for this call: a note to the wrapper outside of Django, which waits (`waiting`).

    `is_kept`: the job goes on when the caller goes away.
    """
    note = {"job": made.job_id, "user": user_id, "path": made.path, "stream": is_stream, "kept": is_kept}
    body = {"id": made.job_id, "object": "job", "status": "in_progress"}
    headers = {JOB_ID: str(made.job_id), jobs_http.STREAMS: json.dumps(note)}
    return HttpResponse(json.dumps(body), status=202, content_type="application/json", headers=headers)


def answer(made: Made, ended: Ended) -> HttpResponse:
    """The answer of a call that has ended."""
    response = HttpResponse(_content(made, ended), status=ended.status, content_type="application/json")
    response[JOB_ID] = str(made.job_id)
    if ended.status >= 400:
        response[NO_RETRY[0]] = NO_RETRY[1]
    return response


def _content(made: Made, ended: Ended) -> Any:
    if ended.file is None:
        return json.dumps(ended.body)
    stored = jobs.result_file(made.job_id, name=ended.file, attempt=ended.fence)
    with default_storage.open(stored.stored_as) as file:
        return file.read()
