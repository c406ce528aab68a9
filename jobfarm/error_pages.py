"""The pages for what went wrong: one of Django's with a case of its own, and one that Django has not."""

import sys
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.template import loader
from django.urls import Resolver404, resolve
from django.views import defaults

from jobfarm.refusals import PASSING_S
from postgres import transactions
from postgres.reachability import is_away

_RETRY_AFTER_S: Final = 5  # an embedded server is back by then


def server_error(request: HttpRequest) -> HttpResponse:
    """The page for an error in the server: 500, or 503 with `Retry-After` when the database is away, or others were
    changing the same at every try. Made without asking who is logged in, since that may be what failed."""
    error = sys.exception()  # Django calls this while it handles the exception, under ASGI too
    if error is not None and transactions.is_passing(error):
        return _later("busy.html", retry_after_s=PASSING_S)
    if error is not None and is_away(error):
        return _later("503.html", retry_after_s=_RETRY_AFTER_S)
    return defaults.server_error(request)


def explain_not_allowed(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Middleware: who opens an address that only takes what a button sends gets an explanation, not an empty page. It
    happens to whoever pressed the button after their log-in had ended: the log-in page leads to that address."""

    def explained(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        is_bare = response.status_code == HTTPStatus.METHOD_NOT_ALLOWED and not getattr(response, "content", b"")
        if not is_bare or request.method != "GET" or not request.accepts("text/html"):
            return response
        page = render(request, "405.html", {"above": _above(request.path)}, status=response.status_code)
        page.headers["Allow"] = response.headers["Allow"]
        return page

    return explained


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
