"""What every answer of the site goes through, the pages for what went wrong, and how whatever the APIs refuse is
answered: the refusals of the apps, and those of Django, django-ninja and pydantic."""

import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import urlsplit

import ninja.errors
import pydantic
from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import RequestDataTooBig
from django.db import DataError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.template import loader
from django.urls import Resolver404, resolve
from django.views import defaults
from whitenoise.middleware import WhiteNoiseMiddleware

from core import pages
from core.refusal import CHALLENGE, Refusal
from jobs.api import at_once
from jobs.protocol.jobs import API
from openai_api import domain as openai
from postgres import transactions
from postgres.reachability import is_away

logger = logging.getLogger("jobfarm")
POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; "
    "base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
# unfold's pages run Alpine.js, which evaluates expressions, and set style attributes.
ADMIN_POLICY = f"{POLICY}; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'"
_ADMIN: Final = "/admin/"
_CALLS: Final = (f"{API}/", openai.ADDRESS)
_RETRY_AFTER_S: Final = 5  # an embedded server is back by then
_NO_VALUE: Final = {"22P02", "22P05"}  # no value of the type; no such character
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


def content_security_policy(get_response: pages.Respond) -> pages.Respond:
    """Middleware: tell browsers to run nothing that does not come from this site, unless the view set a policy itself.
    With it, markup that slipped into a page out of a payload or an output still runs no script."""
    of_pages, of_admin = _allowing(POLICY), _allowing(ADMIN_POLICY)

    def respond(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        policy = of_admin if request.path_info.startswith(_ADMIN) else of_pages
        response.headers.setdefault("Content-Security-Policy", policy)
        return response

    return respond


def _allowing(policy: str) -> str:
    """The policy with the other places that the settings name."""
    if places := _single_sign_on():  # a browser judges where a form ends, redirects included
        policy = policy.replace("form-action 'self'", f"form-action 'self' {places}")
    if settings.FILES_ORIGIN:  # pictures lie there (FILES_URL), and a browser judges where a redirect ends
        policy = policy.replace("img-src 'self'", f"img-src 'self' {settings.FILES_ORIGIN}")
    return policy


def _single_sign_on() -> str:
    """Where forms of the log-in and the log-out lead beside here, as the policy writes it."""
    if settings.SOCIALACCOUNT_PROVIDERS.keys() - {"openid_connect"}:
        return "https:"
    urls = (urlsplit(url) for url in (settings.OIDC_ISSUER, settings.REMOTE_USER_LOGOUT_URL))
    return " ".join(f"{url.scheme}://{url.netloc}" for url in urls if url.netloc)


def of_programs(get_response: pages.Respond) -> pages.Respond:
    """Middleware: call a view of the APIs at once for who comes with a key and no cookie. What stands behind this is
    for browsers alone: sessions and their people, messages, the guard of forms."""

    def respond(request: HttpRequest) -> HttpResponseBase:
        sent = request.META
        if "HTTP_AUTHORIZATION" not in sent or sent.get("HTTP_COOKIE") or not request.path_info.startswith(_CALLS):
            return get_response(request)
        request.user = AnonymousUser()
        try:
            if (answer := at_once.answer(request)) is not None:
                return answer
        except Exception as error:
            return response_to(error)
        request.resolver_match = called = resolve(request.path_info)
        return cast("HttpResponseBase", called.func(request, *called.args, **called.kwargs))

    return respond


class StaticFiles(WhiteNoiseMiddleware):  # type: ignore[misc]  # whitenoise ships no types
    """WhiteNoise, with whole answers.

    WhiteNoise answers with a file that is read while it is sent. Under ASGI Django reads such a file to its
    end first and warns about it each time, so reading it here costs nothing and warns about nothing.
    """

    def add_files(self, root: str | os.PathLike[str], prefix: str | None = None) -> None:
        """Take in a folder if it is there: STATIC_ROOT is not before `collectstatic`, which is optional."""
        if os.path.isdir(root):
            super().add_files(root, prefix=prefix)

    @staticmethod
    def serve(static_file: Any, request: HttpRequest) -> HttpResponse:
        """The file as WhiteNoise answers it (ranges, encodings, 304), with its bytes in the answer."""
        answer = static_file.get_response(request.method, request.META)
        body = b""
        if answer.file is not None:
            with closing(answer.file) as file:
                body = file.read()
        whole = HttpResponse(body, status=int(answer.status))
        del whole["Content-Type"]  # WhiteNoise names its own, where there is one
        for name, value in answer.headers:
            whole[name] = value
        if body:  # the file may have changed since WhiteNoise measured it
            whole["Content-Length"] = str(len(body))
        return whole


def server_error(request: HttpRequest) -> HttpResponse:
    """The page for an error in the server: 500, or 503 with `Retry-After` when the database is away, or others were
    changing the same at every try. Made without asking who is logged in, since that may be what failed."""
    error = sys.exception()  # Django calls this while it handles the exception, under ASGI too
    if isinstance(error, Exception) and request.path_info.startswith(_ADMIN) and _is_of_request(error):
        return defaults.bad_request(request, error)
    if error is not None and transactions.is_passing(error):
        return _later("busy.html", retry_after_s=PASSING_S)
    if error is not None and is_away(error):
        return _later("503.html", retry_after_s=_RETRY_AFTER_S)
    return defaults.server_error(request)


@pages.on_response
def explain_not_allowed(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Middleware: who opens an address that only takes what a button sends gets an explanation, not an empty page. It
    happens to whoever pressed the button after their log-in had ended: the log-in page leads to that address."""
    is_bare = response.status_code == HTTPStatus.METHOD_NOT_ALLOWED and not getattr(response, "content", b"")
    if not is_bare or request.method != "GET" or not request.accepts("text/html"):
        return response
    page = render(request, "405.html", {"above": _above(request.path)}, status=response.status_code)
    page.headers["Allow"] = response.headers["Allow"]
    return page


def _is_of_request(error: Exception) -> bool:
    """Whether a request asked for what its column never holds: a NUL, a word where numbers are. Our own pages look for
    that before; Django's leave it to the database, or to the field."""
    if isinstance(error, DataError):
        return getattr(error.__cause__, "sqlstate", "") in _NO_VALUE or "NUL (0x00)" in str(error)  # by psycopg itself
    return isinstance(error, ValueError) and "expected a number but got" in str(error)


def _later(template: str, *, retry_after_s: int) -> HttpResponse:
    page = loader.get_template(template).render()
    headers = {"Retry-After": str(retry_after_s)}
    return HttpResponse(page, status=HTTPStatus.SERVICE_UNAVAILABLE, headers=headers)


def _above(path: str) -> str:
    """The nearest address above `path` that there is: of /jobs/7/cancel/ the job."""
    while path := path.rstrip("/"):
        path = path.rpartition("/")[0] + "/"
        try:
            resolve(path)
        except Resolver404:
            continue
        return path
    return "/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a call that is refused: its HTTP status, its JSON body, its further headers."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


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
