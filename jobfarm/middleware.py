"""What every answer of the site goes through, and the pages for what went wrong."""

import os
import sys
from contextlib import closing
from http import HTTPStatus
from typing import Any, Final, cast
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.db import DataError
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.template import loader
from django.urls import Resolver404, resolve
from django.views import defaults
from whitenoise.middleware import WhiteNoiseMiddleware

from core import pages
from jobfarm.refusals import PASSING_S, response_to
from jobs.api import at_once
from jobs.protocol.jobs import API
from openai_api.domain import ADDRESS as OPENAI
from postgres import transactions
from postgres.reachability import is_away

POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; "
    "base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
# unfold's pages run Alpine.js, which evaluates expressions, and set style attributes.
ADMIN_POLICY = f"{POLICY}; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'"
_ADMIN: Final = "/admin/"
_CALLS: Final = (f"{API}/", OPENAI)
_RETRY_AFTER_S: Final = 5  # an embedded server is back by then
_NO_VALUE: Final = {"22P02", "22P05"}  # no value of the type; no such character


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
