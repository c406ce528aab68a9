"""Which error is which HTTP status: one table for the API and the sockets; and the form of all refusals."""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final, Protocol

import ninja.errors
import pydantic
from asgiref.sync import iscoroutinefunction
from django.core.exceptions import RequestDataTooBig
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

from accounts import errors as accounts
from examples.chat import errors as chat
from jobs import errors as jobs
from jobs.protocol.values import NotJsonError
from postgres import transactions
from ratelimits import errors as ratelimits
from ratelimits import http as limits
from webhooks import errors as webhooks

logger = logging.getLogger("jobfarm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The answer to a call that is refused: its HTTP status, its JSON body, its further headers."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


class _Explained(Protocol):
    code: str
    message: str


class UnsupportedMediaTypeError(ValueError):
    """The body must be JSON, sent with `Content-Type: application/json`."""

    code = "unsupported_media_type"
    message = "The body must be JSON, sent with `Content-Type: application/json`."


STATUS: Final[Mapping[type[Exception], int]] = {
    NotJsonError: 400,
    UnsupportedMediaTypeError: 415,
    jobs.LeaseLost: 409,
    jobs.OutputGap: 409,
    jobs.NotUnique: 409,
    jobs.IdempotencyKeyInUse: 409,
    jobs.IdempotencyKeyReused: 422,
    jobs.JobDeleted: 410,
    jobs.NotEnded: 409,
    jobs.NotWaiting: 409,
    jobs.WaitsForLimit: 409,
    jobs.UnknownKind: 422,
    jobs.UnknownQueue: 422,
    jobs.InvalidJson: 422,
    jobs.InvalidValue: 422,
    jobs.InvalidName: 422,
    jobs.NotAMember: 422,
    jobs.QueueNotAllowed: 403,
    jobs.NotAllowed: 403,
    jobs.PriorityNotAllowed: 403,
    jobs.QueueChoiceNotAllowed: 403,
    jobs.PayloadTooLarge: 413,
    jobs.QuotaReached: 413,
    jobs.TooManyWaiting: 429,
    jobs.NotFound: 404,
    jobs.LinkRanOut: 410,
    jobs.InvalidKey: 401,
    accounts.Unauthorized: 401,
    accounts.CsrfFailed: 403,
    accounts.InsufficientScope: 403,
    accounts.InactiveUser: 403,
    accounts.LinkSpent: 410,
    accounts.InvalidName: 422,
    accounts.NotFound: 404,
    accounts.InvalidGroupName: 422,
    accounts.GroupNameTaken: 409,
    accounts.InvitationUnknown: 404,
    accounts.GroupFull: 409,
    accounts.NotAMember: 403,
    accounts.NotTheOwner: 403,
    accounts.SignUpClosed: 403,
    accounts.GuestsClosed: 403,
    accounts.InvalidUsername: 422,
    accounts.MixedScripts: 422,
    accounts.NoScope: 422,
    accounts.InvalidDays: 422,
    accounts.UsernameTaken: 409,
    accounts.MembersOnly: 403,
    accounts.CaptchaFailed: 422,
    webhooks.BadSignature: 401,
    webhooks.BadEnvelope: 400,
    webhooks.NotJson: 400,
    webhooks.MethodNotAllowed: 405,
    webhooks.UnsupportedMediaType: 415,
    webhooks.TooLarge: 413,
    webhooks.TooSlow: 408,
    webhooks.NoSecret: 503,
    webhooks.CannotOpen: 503,
    webhooks.Busy: 503,
    webhooks.UnknownSource: 404,
    webhooks.NotFound: 404,
    webhooks.BadSecret: 422,
    webhooks.CannotReplay: 409,
    webhooks.Undeliverable: 502,
    chat.NoSuchRoom: 404,
    chat.NoSuchMessage: 404,
    chat.InvalidText: 422,
    chat.InstructionsTooLong: 422,
    chat.Unanswered: 409,
    chat.NotYours: 403,
    chat.NotYourInstructions: 403,
    chat.NothingToAskAgain: 409,
    chat.TooOld: 410,
    ratelimits.RateLimited: 429,
    ratelimits.CountExceedsLimit: 422,
}
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
PASSING_S: Final = 1  # what collided is not what stands in the way a second later
_CHALLENGE: Final = {"WWW-Authenticate": 'Bearer realm="jobfarm"'}


def refusal(error: Exception) -> Refusal | None:
    """How `error` is reported to the caller; None for an error that is none of theirs."""
    if isinstance(error, pydantic.ValidationError):
        return _invalid(error.errors(include_url=False, include_context=False, include_input=False))
    if isinstance(error, ninja.errors.ValidationError):
        return _invalid(error.errors)
    if isinstance(error, Http404):
        return general(404)
    if isinstance(error, RequestDataTooBig):
        return general(413)
    if isinstance(error, ninja.errors.HttpError):
        return _of_ninja(error)
    status = STATUS.get(type(error))
    if status is not None:
        return _explained(status, error)  # type: ignore[arg-type]  # all of the table are
    return _passing() if transactions.is_passing(error) else None


def _passing() -> Refusal:
    """Others changed the same again and again until this was given up (docs/adr/0044): nothing of it is done."""
    logger.warning("A call was refused: it collided with others at every try, or waited too long for a lock")
    refused = general(503)
    return replace(refused, headers={"Retry-After": str(PASSING_S)})


def general(status: int) -> Refusal:
    """The refusal for a bare HTTP status."""
    fallback = ("refused", HTTPStatus(status).description or HTTPStatus(status).phrase)
    code, message = _GENERAL.get(status, fallback)
    return Refusal(
        status=status, body={"error": code, "message": message}, headers=_CHALLENGE if status == 401 else {}
    )


def problem(error: Exception) -> tuple[int, Mapping[str, Any]]:
    """The status and body of `error` for a socket; what is no refusal is logged and becomes 500."""
    refused = refusal(error)
    if refused is None:
        logger.error("A message could not be served", exc_info=error)
        refused = general(500)
    return refused.status, refused.body


def respond(refused: Refusal) -> HttpResponse:
    """The refusal as a response."""
    return HttpResponse(
        json.dumps(refused.body, default=str),
        status=refused.status,
        content_type="application/json",
        headers=dict(refused.headers),
    )


@sync_and_async_middleware
def api_form(get_response: Callable[[HttpRequest], Any]) -> Callable[[HttpRequest], Any]:
    """Middleware: under /api/ whatever goes wrong is answered in our form, also what fails before the API.

    Unknown addresses, wrong methods, foreign hosts and broken requests are refused by Django in HTML or text.
    """
    if iscoroutinefunction(get_response):

        async def asynchronous(request: HttpRequest) -> HttpResponseBase:
            return _in_form(request, await get_response(request))

        return asynchronous

    def synchronous(request: HttpRequest) -> HttpResponseBase:
        return _in_form(request, get_response(request))

    return synchronous


def _in_form(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    is_ours = response.headers.get("Content-Type", "").startswith("application/json")
    if response.status_code < 400 or is_ours or not request.path_info.startswith("/api/"):
        return response
    answer = respond(general(response.status_code))
    for (
        name,
        value,
    ) in response.headers.items():  # what it says to browsers, and Allow; not what describes its body
        if not name.lower().startswith("content-") or name == "Content-Security-Policy":
            answer.headers[name] = value
    return answer


def _explained(status: int, error: _Explained) -> Refusal:
    numbers = getattr(error, "numbers", {})
    if isinstance(error, ratelimits.RateLimited):  # in the form that limits on views and routes have
        return Refusal(status=status, body=limits.body(error), headers=limits.retry_headers(error))
    headers = _CHALLENGE if status == 401 else {}
    if "retry_after" in numbers:  # whole seconds
        headers = {"Retry-After": str(numbers["retry_after"]), "Cache-Control": "no-store"}
    return Refusal(
        status=status, body={**numbers, "error": error.code, "message": error.message}, headers=headers
    )


def _of_ninja(error: ninja.errors.HttpError) -> Refusal:
    """An HttpError of django-ninja, which wraps what the parser of bodies raised."""
    cause = error.__cause__
    if isinstance(cause, NotJsonError | UnsupportedMediaTypeError):
        return _explained(STATUS[type(cause)], cause)
    if isinstance(cause, Exception) and (refused := refusal(cause)):
        return refused
    return general(error.status_code)


def _invalid(faults: Any) -> Refusal:
    """Fields that do not fit: the first fault as the sentence, and all of them (20 at most) for programs."""
    described = [_fault(fault) for fault in faults[:_MOST_FAULTS]]
    first = described[0]
    message = f"{first['field']}: {first['why']}" if first["field"] else first["why"]
    return Refusal(status=422, body={"error": "invalid", "message": message, "faults": described})


def _fault(fault: Mapping[str, Any]) -> dict[str, str]:
    # django-ninja's path begins with the part of the request and the name of our argument.
    steps = [str(step) for step in fault["loc"] if step not in {"body", "query", "filters", "path", "header"}]
    why = "there is no such field" if fault["type"] == "extra_forbidden" else str(fault["msg"])
    sentence = why.removeprefix("Value error, ")
    return {"field": ".".join(steps)[:200], "why": f"{sentence[:1].lower()}{sentence[1:]}."}
