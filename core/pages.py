"""Who may see a page, what becomes of a page that is refused, how a list goes on, and its rows as a file: CSV for
spreadsheets, JSON lines for programs.
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template import loader
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from core.refusal import Refusal, sentence_for_people

SAFE: Final = ("GET", "HEAD")
POST: Final = ("POST",)
FORM: Final = (*SAFE, *POST)
View = TypeVar("View", bound=Callable[..., HttpResponseBase])
Respond = Callable[[HttpRequest], HttpResponseBase]
# What a button comes to: a sentence where it went well, a level and a sentence, or the answer itself.
Answer = str | tuple[int, str] | HttpResponse


def on_response(change: Callable[[HttpRequest, HttpResponseBase], HttpResponseBase]) -> Callable[[Respond], Respond]:
    """Make middleware of a function, which is given each request and its response, and returns what is sent."""
    return lambda get_response: lambda request: change(request, get_response(request))


def private(view: View) -> View:
    """Let no cache keep a page; what is refused for not being there, or not theirs, is a page not found, and whoever
    comes too often is shown when to come again."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return view(request, *args, **kwargs)
        except Refusal as refusal:
            if refusal.http_status in {403, 404}:
                raise Http404(refusal.message) from refusal
            if refusal.http_status != 429:
                raise
            page = loader.render_to_string("429.html", {"refusal": refusal}, request)
            return HttpResponse(page, status=429, headers=refusal.headers)

    return never_cache(guarded)  # type: ignore[return-value]  # it wraps the view


def guarded(guard: Callable[[Any], Any], methods: Sequence[str] = SAFE) -> Callable[[View], View]:
    """A private page for those whom this decorator lets in, at an address that takes these methods alone."""
    return lambda view: require_http_methods([*methods])(guard(private(view)))


def for_holders(permission: str, methods: Sequence[str] = SAFE, *, is_hidden: bool = True) -> Callable[[View], View]:
    """The same for those with a permission. Whoever is nobody yet logs in; for others nothing is at its address, or,
    where it is not hidden, they are refused."""

    def holders_only(view: View) -> View:
        @wraps(view)
        def allowed(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if not request.user.has_perm(permission):
                raise Http404("There is nothing at this address.") if is_hidden else PermissionDenied
            return view(request, *args, **kwargs)

        return login_required(allowed)  # type: ignore[return-value]  # it wraps the view

    return guarded(holders_only, methods)


def acting(page: str, guard: Callable[[Any], Any]) -> Callable[[Callable[..., Answer]], Any]:
    """What a button does, for whom `guard` lets in: the view does it, and what it answers, or why it was refused, is
    shown on the page of this name of what the address names first."""

    def decorate(view: Callable[..., Answer]) -> Any:
        @wraps(view)
        def act(request: HttpRequest, **names: Any) -> HttpResponse:
            try:
                answer = view(request, **names)
            except Refusal as refusal:
                if refusal.http_status in {403, 404, 429}:
                    raise
                answer = messages.WARNING, sentence_for_people(refusal)
            if isinstance(answer, HttpResponse):
                return answer
            level, sentence = (messages.SUCCESS, answer) if isinstance(answer, str) else answer
            messages.add_message(request, level, sentence)
            return redirect(page, *[*names.values()][:1])

        return guard(act)

    return decorate


def neighbours(filters: Mapping[str, Any], *, before: Any, older: Any) -> dict[str, Any]:
    """What parts/pages.html shows below the rows before `before`: where those before `older` are, and the newest; None
    or 0: there are none. And whether anything is filtered."""
    active = {name: value for name, value in filters.items() if value}
    return {
        "is_filtered": bool(active),
        "older": urlencode({**active, "before": older}) if older else "",
        "newest": urlencode(active) if before else None,
    }


# What a spreadsheet takes for a formula (OWASP, "CSV Injection").
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def as_csv(headings: Iterable[str], rows: Iterable[Iterable[Any]], *, name: str) -> HttpResponse:
    """The rows under these headings, by RFC 4180, as a file of this name."""
    text = io.StringIO()
    lines = csv.writer(text)
    lines.writerow(headings)
    lines.writerows([_cell(value) for value in row] for row in rows)
    return _file(text.getvalue(), name, "text/csv; charset=utf-8")


def export(
    request: HttpRequest, kind: str, headings: Iterable[str], rows: Iterable[Mapping[str, Any]], *, name: str,
    older: int | None,
) -> HttpResponse:  # fmt: skip
    """The rows as the file `name`: CSV, or by another `kind` JSON lines. Where some are `older`, a Link (RFC 8288)
    leads to the file that goes on with what is before this one."""
    if kind == "csv":
        response = as_csv(headings, (row.values() for row in rows), name=f"{name}.csv")
    else:
        lines = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
        response = _file(lines, f"{name}.jsonl", "application/jsonl")
    if older:
        query = request.GET.copy()
        query["before"] = str(older)
        response["Link"] = f'<{request.path}?{query.urlencode()}>; rel="next"'
    return response


def _cell(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _file(text: str, name: str, content_type: str) -> HttpResponse:
    disposition = f'attachment; filename="{name}"'
    return HttpResponse(text, content_type=content_type, headers={"Content-Disposition": disposition})
