"""How whatever is refused is answered: the refusals of the apps, and those of Django, django-ninja and pydantic."""

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final, cast

import ninja.errors
import pydantic
from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase

from core import pages
from core.refusal import CHALLENGE, Refusal
from openai_api import domain as openai
from postgres import transactions
from postgres.reachability import is_away

logger = logging.getLogger("jobfarm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a call that is refused: its HTTP status, its JSON body, its further headers."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


# What Django and django-ninja refuse by themselves, before an operation of ours runs.
_GENERAL: Final[Mapping[int, tuple[str, str]]] = {
    400: ("bad_request", "The request cannot be understood."),
    401: ("unauthorized", "This needs a key: send `Authorization: Bearer <key>`."),
    403: ("forbidden", "You may not do that."),
    404: ("not_found", "There is nothing at this address."),
    405: ("method_not_allowed", "This address does not know that method."),
    413: ("too_large", "The body is too large."),
    500: ("internal", "Something broke on our side. It was logged; try again later."),
    503: ("unavailable", "The farm cannot answer just now; try again later."),
}
_MOST_FAULTS: Final = 20
_TYPE: Final = re.compile(r"constrained-|function-")  # as pydantic calls one that has bounds or a rule
PASSING_S: Final = 1  # what collided is not what stands in the way a second later


def refusal(error: Exception) -> Answer | None:
    """How `error` is reported to the caller; None for an error that is none of theirs."""
    if isinstance(error, pydantic.ValidationError):
        return _invalid(error.errors(include_url=False, include_context=False, include_input=False))
    if isinstance(error, ninja.errors.ValidationError):
        return _invalid([{**fault, "loc": _within(fault["loc"])} for fault in error.errors])
    if isinstance(error, Http404):
        return general(404)
    if isinstance(error, RequestDataTooBig):
        return general(413)
    if isinstance(error, ninja.errors.HttpError):  # which wraps what the parser of bodies raised
        return (isinstance(error.__cause__, Exception) and refusal(error.__cause__)) or general(error.status_code)
    if isinstance(error, Refusal) and error.http_status != 500:  # which is ours, and logged
        return Answer(status=error.http_status, body=error.body, headers=error.headers)
    return _passing() if transactions.is_passing(error) else None


def _passing() -> Answer:
    """Others changed the same again and again until this was given up (docs/adr/0003): nothing of it is done."""
    logger.warning("A call was refused: it collided with others at every try, or waited too long for a lock")
    refused = general(503)
    return replace(refused, headers={"Retry-After": str(PASSING_S)})


def general(status: int) -> Answer:
    fallback = (Refusal.code, HTTPStatus(status).description or HTTPStatus(status).phrase)
    code, message = _GENERAL.get(status, fallback)
    return Answer(status=status, body={"error": code, "message": message}, headers=CHALLENGE if status == 401 else {})


def problem(error: Exception) -> tuple[int, Mapping[str, Any]]:
    """The status and body of `error` for a socket; what is no refusal is logged and becomes 500, or 503 while the
    database is away."""
    refused = refusal(error)
    if refused is None:
        logger.error("A message could not be served", exc_info=error)
        refused = general(503 if is_away(error) else 500)
    return refused.status, refused.body


def response_to(error: Exception) -> HttpResponse:
    """The answer to a call that is refused. What is no refusal is raised: Django logs it, and answers 500."""
    if (refused := refusal(error)) is None:
        raise error
    return respond(refused)


def respond(refused: Answer) -> HttpResponse:
    return HttpResponse(
        json.dumps(refused.body, default=str),
        status=refused.status,
        content_type="application/json",
        headers=dict(refused.headers),
    )


@pages.on_response
def api_form(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Middleware: under /api/ whatever goes wrong is answered in our form, also what fails before the API; under /v1/
    in OpenAI's, or in Anthropic's.

    Unknown addresses, wrong methods, foreign hosts and broken requests are refused by Django in HTML or text.
    """
    is_ours = response.headers.get("Content-Type", "").startswith("application/json")
    is_openai = request.path_info.startswith(openai.ADDRESS)
    if response.status_code < 400 or not (is_openai or (request.path_info.startswith("/api/") and not is_ours)):
        return response
    refused = general(response.status_code)
    if is_openai:
        body = json.loads(cast("HttpResponse", response).content) if is_ours else refused.body
        path = request.path_info.removeprefix(openai.ADDRESS)
        status, body = openai.refused(body, status=response.status_code, path=path)
        headers = {**refused.headers, **openai.advice(response.headers)}
        refused = replace(refused, status=status, body=body, headers=headers)
    answer: Any = respond(refused)
    answer._has_been_logged = getattr(response, "_has_been_logged", False)  # noqa: SLF001 (Django's, against two lines)
    for name, value in response.headers.items():  # what it says to browsers, and Allow; not what describes its body
        if not name.lower().startswith("content-") or name == "Content-Security-Policy":
            answer.headers[name] = value
    return cast("HttpResponse", answer)


def _invalid(faults: Any) -> Answer:
    """Fields that do not fit: the first fault as the sentence, and all of them (20 at most) for programs."""
    described = [_fault(fault) for fault in faults[:_MOST_FAULTS]]
    first = described[0]
    message = f"{first['field']}: {first['why']}" if first["field"] else first["why"]
    return Answer(status=422, body={"error": "invalid", "message": message, "faults": described})


def _within(path: tuple[Any, ...]) -> tuple[Any, ...]:
    """django-ninja's path without the part of the request and the name of our argument, which a field may have too."""
    return path[2 if path[:2] in {("body", "body"), ("query", "filters")} else 1 :]


def _fault(fault: Mapping[str, Any]) -> dict[str, str]:
    steps = [*map(str, fault["loc"])]
    if fault["type"] != "extra_forbidden" and _TYPE.match(steps[-1] if steps else ""):
        steps.pop()  # which of several types it did not have
    why = "there is no such field" if fault["type"] == "extra_forbidden" else str(fault["msg"])
    sentence = why.removeprefix("Value error, ")
    return {"field": ".".join(steps)[:200], "why": f"{sentence[:1].lower()}{sentence[1:]}."}
