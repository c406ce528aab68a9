"""Pages of people: in and out, one's account, groups; and what several of them say."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from accounts.errors import AccountsError
from core.refusal import Refusal

SESSION_MARK = "is_guest"  # what templates ask: of a session that is read anyway, not of the database


def closed(request: HttpRequest, refusal: Refusal, *, status: int | None = None) -> HttpResponse:
    return render(request, "accounts/closed.html", {"refusal": refusal}, status=status or refusal.http_status)


def by_mail(view: Callable[..., Any]) -> Callable[..., Any]:
    """Show a page that needs mail only where the farm can send any, and people have passwords; else what to do."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if settings.HAS_MAIL_SERVER and not settings.SSO_ONLY:
            return view(request, *args, **kwargs)
        by_link = "This farm sends nobody a new password: the command login_link creates a link that logs you in."
        return closed(request, AccountsError(by_link), status=200 if request.method == "GET" else 403)

    return guarded


def ways_in() -> dict[str, bool]:
    """For templates: which doors the operator left open beside the log-in."""
    return {
        "can_log_in": not settings.SSO_ONLY,
        "can_sign_up": settings.JOBFARM["SIGN_UP"] and not settings.SSO_ONLY,
        "can_be_guest": settings.JOBFARM["GUESTS"],
    }
