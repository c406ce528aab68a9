"""Calls that are made as nearly all are: a key, a body of JSON that is not large, and nothing else. They are served
without django-ninja, whose routes stay for all others, and say what is wrong with a request. That is 11 to 13 % of what
a submit, a claim and a finish cost the web process (0.15 ms each), and 1 to 6 % of their time, which the disk has."""

import re
from collections.abc import Callable
from typing import Any, Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from pydantic import ValidationError

from core.values import Body, NotJsonError, loads
from jobs.protocol.jobs import API

_ID: Final = re.compile(r"/([1-9][0-9]{0,17})/")  # of a job, in an address
# By address, or by what stands before and behind an id in it: who may call, which body it takes, what answers.
_calls: Final[dict[tuple[str, ...], tuple[Callable[[HttpRequest], Any], type[Body], Callable[..., HttpResponse]]]] = {}


def serve(path: str, key: Callable[[HttpRequest], Any], body: type[Body], view: Callable[..., HttpResponse]) -> None:
    """Serve a POST at once: below the API's address, with `/0/` for the id of a job."""
    _calls[tuple(f"{API}{path}".split("/0/"))] = key, body, view


def answer(request: HttpRequest) -> HttpResponse | None:
    """The answer to such a call; None: it is none. Raises as the call."""
    match = _ID.search(path := request.path_info)
    called = _calls.get((path,) if match is None else (path[: match.start()], path[match.end() :]))
    is_plain = request.content_type == "application/json" and "HTTP_IDEMPOTENCY_KEY" not in request.META
    if called is None or request.method != "POST" or not is_plain:
        return None
    key, checked, view = called
    request.auth = key(request)  # type: ignore[attr-defined]  # as ninja does
    if not request.auth or len(request.body) > settings.JOBFARM["PAYLOAD_BYTES"]:  # type: ignore[attr-defined]
        return None
    try:
        body = checked.model_validate(loads(request.body))
    except (NotJsonError, ValidationError):
        return None
    return view(request, body=body, **({} if match is None else {"job_id": int(match[1])}))
