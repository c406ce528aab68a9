"""What every answer of the site goes through."""

import os
from collections.abc import Callable
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from whitenoise.middleware import WhiteNoiseMiddleware

POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; "
    "base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
# unfold's pages run Alpine.js, which evaluates expressions, and set style attributes.
ADMIN_POLICY = f"{POLICY}; script-src 'self' 'unsafe-eval'; style-src 'self' 'unsafe-inline'"


def content_security_policy(
    get_response: Callable[[HttpRequest], HttpResponseBase],
) -> Callable[[HttpRequest], HttpResponseBase]:
    """Tell browsers to run nothing that does not come from this site, unless the view set a policy itself. With it,
    markup that slipped into a page out of a payload or an output still runs no script."""
    return lambda request: _with_policy(request, get_response(request))


def _with_policy(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    in_admin = request.path.startswith(reverse("admin:index"))
    policy = ADMIN_POLICY if in_admin else POLICY
    if places := _single_sign_on():  # a browser judges where a form ends, redirects included
        policy = policy.replace("form-action 'self'", f"form-action 'self' {places}")
    if settings.FILES_ORIGIN:  # pictures lie there (FILES_URL), and a browser judges where a redirect ends
        policy = policy.replace("img-src 'self'", f"img-src 'self' {settings.FILES_ORIGIN}")
    response.headers.setdefault("Content-Security-Policy", policy)
    return response


def _single_sign_on() -> str:
    """Where forms of the log-in and the log-out lead beside here, as the policy writes it."""
    if settings.SOCIALACCOUNT_PROVIDERS.keys() - {"openid_connect"}:
        return "https:"
    urls = (urlsplit(url) for url in (settings.OIDC_ISSUER, settings.REMOTE_USER_LOGOUT_URL))
    return " ".join(f"{url.scheme}://{url.netloc}" for url in urls if url.netloc)


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
