"""Who is calling: API tokens for programs, the browser's session for the page that documents the API."""

import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from ninja.errors import AuthenticationError
from ninja.security import APIKeyCookie, HttpBearer
from ninja.utils import check_csrf

from accounts import operations
from accounts.errors import CsrfFailed, InsufficientScope, MembersOnly, Unauthorized
from accounts.models import ApiToken
from live import addresses
from observing import fields
from ratelimits import http as limits

View = TypeVar("View", bound=Callable[..., Any])

_LET_IN_BY: Final = "_accounts_let_in_by"
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def token_of(authorization: str, *, find: Callable[..., ApiToken] = operations.token, address: str = "") -> ApiToken:
    """The API token in an `Authorization` header. Raises Unauthorized."""
    scheme, _, key = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized
    return find(key.strip(), address=address)


def _token(request: HttpRequest, *, find: Callable[..., ApiToken] = operations.token) -> ApiToken | None:
    """The API token that comes as `Authorization: Bearer`; None without a good one. See `token_id`."""
    try:
        address = addresses.network(request.META.get("REMOTE_ADDR")) or ""
        token = token_of(request.headers.get("Authorization", ""), find=find, address=address)
    except Unauthorized:
        return None
    request.__dict__[_LET_IN_BY] = token
    fields.note(user=token.user_id, token=token.pk)
    return token


def let_in_by(request: HttpRequest) -> ApiToken | None:
    """The API token that let this request in; None where it was a session."""
    token: ApiToken | None = request.__dict__.get(_LET_IN_BY)
    return token


def look_up(request: HttpRequest, scope: str) -> bool:
    """Look up the token that let this request in, where it was remembered; whether it was. Raises AuthenticationError
    (what a request without a good token is answered with), InsufficientScope."""
    if getattr(let_in_by(request), "versions", None) is None:
        return False
    token = _token(request)
    if token is None:
        raise AuthenticationError
    _check(token, scope)
    request.auth = token.user  # type: ignore[attr-defined]  # as ninja does
    return True


def token_id(request: HttpRequest) -> int | None:
    """The API token that let this request in; None where it was a session."""
    return getattr(let_in_by(request), "pk", None)


def keeps_content(request: HttpRequest) -> bool:
    """Whether what the jobs of this request were given and gave is kept: its API token may say no."""
    return getattr(let_in_by(request), "keep_content", True)


def require(request: HttpRequest, scope: str) -> None:
    """Raise InsufficientScope if an API token let this request in that may not do this as well; a session may."""
    if token := let_in_by(request):
        _check(token, scope)


def _check(token: ApiToken, scope: str) -> None:
    if not token.may(scope):
        raise InsufficientScope(scope=scope, scopes=" and ".join(token.scopes.split()))


def limit_key(request: HttpRequest) -> str:
    """Whose tokens of a limit a request takes: "user:<id>", "session:<session id>" of a guest, or where it comes from
    ("address:<ip>") for who did not come in."""
    person = getattr(request, "auth", None)  # who comes with a token, as django-ninja keeps them
    if not isinstance(person, User):
        person = getattr(request, "user", None)
    return operations.limit_key(person) if isinstance(person, User) else limits.address(request)


def members_only(view: View) -> View:
    """Let nobody but members (people with a name and a way back) see a view. Visitors log in first, guests are asked to
    sign up."""

    @functools.wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        if operations.is_guest(request.user):
            return for_members(request)
        return view(request, *args, **kwargs)

    return login_required(guarded)  # type: ignore[return-value]  # it wraps the view


def for_members(request: HttpRequest) -> HttpResponse:
    return render(request, "accounts/closed.html", {"refusal": MembersOnly()}, status=403)


class TokenAuth(HttpBearer):
    """An API token of a person, made on the account page or with `manage.py create_token USER`."""

    def __init__(self, scope: str, *, recognizes: bool = False) -> None:
        """`recognizes`: for calls that `look_up` what was remembered, or whose statements look at its `versions`."""
        super().__init__()
        self.scope = scope
        self._find = operations.recognize if recognizes else operations.token

    def __call__(self, request: HttpRequest) -> User | None:
        """The person, or None: django-ninja then asks the next way in, and ends with a 401. Raises InsufficientScope
        for a token that was not made for this."""
        token = _token(request, find=self._find)
        if token is None:
            return None
        _check(token, self.scope)
        return token.user

    def authenticate(self, request: HttpRequest, token: str) -> User | None:  # noqa: ARG002  # ninja's signature
        return self(request)


class SessionAuth(APIKeyCookie):
    """The session of somebody who is logged in here with a browser, with the CSRF token where something changes. At
    that django-ninja's own class looks first: a call without any key would get 403 where the truth is 401."""

    param_name = settings.SESSION_COOKIE_NAME

    def __init__(self) -> None:
        super().__init__(csrf=False)

    def authenticate(self, request: HttpRequest, key: str | None) -> User | None:  # noqa: ARG002  # ninja's signature
        """The person, or None without a session. Raises CsrfFailed for a change without the CSRF token, and MembersOnly
        for a change by a guest: what guests may do, the pages offer them."""
        user = request.user
        if not user.is_authenticated:
            return None
        if check_csrf(request):
            raise CsrfFailed
        if request.method not in _SAFE and operations.is_guest(user):
            raise MembersOnly
        return user


def callers(scope: str, *, recognizes: bool = False) -> list[TokenAuth | SessionAuth]:
    """The ways in which a person may do what this scope of tokens is for, in the order they are tried."""
    return [TokenAuth(scope, recognizes=recognizes), SessionAuth()]
