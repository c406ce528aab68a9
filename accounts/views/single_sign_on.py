"""Single sign-on: people of an OpenID provider, whose claims say what they may do here, or of a proxy in front."""

import logging
import secrets
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlencode

from allauth.account import app_settings
from allauth.account.adapter import get_adapter
from allauth.account.views import LogoutView
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialAccount, SocialApp
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView, OAuth2View
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.contrib import auth
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, ValidationError
from django.forms import EmailField
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from requests import RequestException

from accounts import operations
from accounts.errors import AccountsError
from accounts.http import for_members
from core.values import dumps
from postgres import clock

logger = logging.getLogger(__name__)
_CLOCKS_S: Final = 300  # by which those of a provider and of this farm may differ
PROVIDER: Final = "sso"  # in the addresses of the provider that the OIDC_ variables name
_MARK: Final = "is_by_sso"
_BY_PROXY: Final = "named_by_proxy"
_TEXTS: Final = {"sub", "preferred_username", "email", "name", "given_name", "family_name"}


class Adapter(DefaultSocialAccountAdapter):  # type: ignore[misc]  # allauth ships no types
    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:  # noqa: ARG002  # allauth's signature
        """Whom the team's provider knows may come; whom another site knows, where people sign up by themselves."""
        return sociallogin.account.provider == PROVIDER or bool(settings.JOBFARM["SIGN_UP"])

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        """Let nobody in by what a provider said at another time, by another clock, or at another log-in; tie nothing to
        a guest's visit; and let in nobody but who has just proved an address. Raises PermissionDenied."""
        now, token = clock.now().timestamp(), sociallogin.account.extra_data.get("id_token")
        if token and "nonce" in sociallogin.state:  # of an OpenID provider
            if abs(now - token.get("iat", now)) > _CLOCKS_S:
                raise PermissionDenied("the clocks differ")
            if token.get("nonce") != sociallogin.state["nonce"]:
                raise PermissionDenied("an answer to another log-in")
        connects = sociallogin.state.get("process") == "connect"
        if connects and operations.is_guest(request.user):
            raise ImmediateHttpResponse(for_members(request))
        if not connects and (address := sociallogin._did_authenticate_by_email):  # noqa: SLF001 (allauth has no other word for it)
            operations.close_other_ways_in(sociallogin.user, address)

    def on_authentication_error(self, request: HttpRequest, provider: Any, **details: Any) -> None:  # noqa: ARG002
        """The page has a sentence, the log the reason."""
        reason = details.get("exception")
        logger.warning("%s let nobody in", provider, exc_info=reason)
        detail = f": {reason}" if isinstance(reason, PermissionDenied) else ""
        operations.audit("log_in_failed", None, f"single sign-on{detail}")


class Endpoints(OpenIDConnectOAuth2Adapter):  # type: ignore[misc]
    """What a provider's discovery names. One that names no page for claims says all in its ID token."""

    def complete_login(self, request: HttpRequest, app: Any, token: Any, **more: Any) -> Any:
        if not self.openid_config.get("userinfo_endpoint"):
            app.settings = {**app.settings, "fetch_userinfo": False}
        return super().complete_login(request, app, token, **more)


class Provider(OpenIDConnectProvider):  # type: ignore[misc]
    """An OpenID provider, whose answers are bound to the log-in that asked: by a proof key, and a nonce in its token,
    which allauth has none of."""

    package = "allauth.socialaccount.providers.openid_connect"
    pkce_enabled_default = True
    oauth2_adapter_class = Endpoints

    def redirect(self, request: HttpRequest, process: str, *args: Any, **more: Any) -> HttpResponse:
        """To the provider. The nonce is kept with the state of this log-in, which is good once."""
        nonce, anew = secrets.token_urlsafe(), {"prompt": "login"} if _MARK in request.session else {}
        more["auth_params"] = {**(more.get("auth_params") or self.get_auth_params()), **anew, "nonce": nonce}
        response: HttpResponse = super().redirect(request, process, *args, nonce=nonce, **more)
        return response

    def sociallogin_from_response(self, request: HttpRequest, response: dict[str, Any]) -> Any:
        """Whom it speaks of, which is one person (OpenID Connect Core, 5.3.2): else raises PermissionDenied. Who had
        that `sub` at an issuer that was here before (OIDC_ISSUER) is somebody else."""
        response = {part: _storable(claims) for part, claims in response.items()}
        if len({claims["sub"] for claims in response.values()}) > 1:
            raise PermissionDenied("userinfo of somebody else")
        login = super().sociallogin_from_response(request, response)
        if issuer := response.get("id_token", {}).get("iss"):
            known = SocialAccount.objects.filter(provider=login.account.provider, uid=login.account.uid)
            known.filter(extra_data__id_token__iss__isnull=False).exclude(extra_data__id_token__iss=issuer).delete()
        return login


def _storable(claims: dict[str, Any]) -> dict[str, Any]:
    """What a provider says of somebody. A number for a text is one; what else it gave for one is left out. Raises
    PermissionDenied for what no row can hold."""
    texts = {
        name: str(value) if type(value) in {int, float} and name in _TEXTS else value for name, value in claims.items()
    }
    kept = {name: value for name, value in texts.items() if name not in _TEXTS or isinstance(value, str)}
    try:
        dumps(kept)
    except ValueError as error:
        raise PermissionDenied(f"the claims cannot be kept: {error}") from None
    if not 0 < len(kept.get("sub", "")) <= SocialAccount._meta.get_field("uid").max_length:
        raise PermissionDenied("the claims name nobody")
    return kept


def come_in(request: HttpRequest, user: User, sociallogin: Any) -> None:
    """Follow what the provider says of somebody who has just logged in by it, and ask it again within an hour."""
    if sociallogin.account.provider != PROVIDER:
        return
    claims: dict[str, Any] = {}
    for part in ("id_token", "userinfo"):
        claims |= sociallogin.account.extra_data.get(part) or {}
    groups = claims.get(settings.OIDC_GROUPS_CLAIM) or []
    operations.follow_claims(user, groups if isinstance(groups, list | dict) else str(groups).split())
    request.session.set_expiry(settings.OIDC_SESSION)
    at = claims.get("auth_time")  # a provider that remembers somebody asks nothing
    request.session[_MARK] = at if isinstance(at, int | float) else clock.now().timestamp()


def ways_to_come_anew(request: HttpRequest) -> list[dict[str, str]]:
    """Where the team's provider asks again who has come by it, as django-allauth lists such ways."""
    url = reverse("openid_connect_login", args=[PROVIDER])
    return [{"id": PROVIDER, "description": "Single sign-on", "url": url}] if _MARK in request.session else []


def has_just_come(request: HttpRequest) -> bool:
    """Whether the provider has asked within the time for which a password counts."""
    return bool(clock.now().timestamp() - request.session[_MARK] < app_settings.REAUTHENTICATION_TIMEOUT)


def come_by_proxy(request: HttpRequest) -> bool:
    """Log in whom the proxy in front names (REMOTE_USER_HEADER), for as long as a provider's people; whether it did."""
    if not (name := _named(request)):
        return False
    groups = request.headers.get(settings.REMOTE_GROUPS_HEADER, "") if settings.REMOTE_GROUPS_HEADER else None
    try:
        if get_adapter(request).clean_username(name, shallow=True) != name:  # where "ªda" came in she would be ada
            raise ValidationError("a name with letters that are others in another form")
        user = operations.person_of_proxy(
            name,
            email=_address(request.headers.get(settings.REMOTE_EMAIL_HEADER or "-", "")),
            groups=None if groups is None else map(str.strip, groups.split(",")),
        )
    except (AccountsError, ValidationError) as refusal:
        reason = getattr(refusal, "messages", [str(refusal)])[0]
        logger.warning("Nobody is let in whom the proxy names: %s", reason)
        operations.audit("log_in_failed", None, f"header: {reason}")
        return False
    auth.login(request, user)
    request.session.set_expiry(settings.OIDC_SESSION)
    request.session[_BY_PROXY] = name
    operations.audit("log_in", user, "header")
    return True


def _address(text: str) -> str:
    try:
        return str(EmailField(max_length=254, required=False).clean(text))
    except ValidationError:
        return ""


def follow_proxy(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """End the session of somebody in whose browser the proxy has let in another person since."""

    def follow(request: HttpRequest) -> HttpResponse:
        before = request.session.get(_BY_PROXY)
        if before and _named(request) not in {before, ""}:
            auth.logout(request)
        return get_response(request)

    return follow


def _named(request: HttpRequest) -> str:
    """Whom the proxy names; of who is no trusted proxy nobody."""
    name: str = request.headers.get(settings.REMOTE_USER_HEADER, "") if settings.REMOTE_USER_HEADER else ""
    if not name or getattr(request, "scope", {}).get("is_of_proxy"):
        return name
    logger.warning("%s comes from no address in FORWARDED_ALLOW_IPS: it is not believed.", settings.REMOTE_USER_HEADER)
    operations.audit("log_in_failed", None, "header of no trusted proxy")
    return ""


def _while_it_is_there(view: type[OAuth2View]) -> Callable[..., HttpResponse]:
    def guarded(request: HttpRequest, provider_id: str) -> HttpResponse:
        try:
            answer: HttpResponse = view.adapter_view(Endpoints(request, provider_id))(request)
        except SocialApp.DoesNotExist:
            raise Http404 from None
        except RequestException as error:
            logger.warning("The provider of single sign-on cannot be reached: %s", error)
            return render(request, "socialaccount/authentication_error.html", status=503)
        return answer

    return guarded


log_in, call_back = _while_it_is_there(OAuth2LoginView), _while_it_is_there(OAuth2CallbackView)


class LogOut(LogoutView):  # type: ignore[misc]
    """Log out here, and at the provider that let somebody in."""

    http_method_names = ["post"]

    def get_redirect_url(self) -> str:
        """Where the browser goes: the provider's log-out, which sends it back, or our log-in."""
        here: str = super().get_redirect_url()
        if _BY_PROXY in self.request.session:
            return str(settings.REMOTE_USER_LOGOUT_URL)
        if not self.request.session.get(_MARK):
            return here
        try:
            end: str | None = Endpoints(self.request, PROVIDER).openid_config.get("end_session_endpoint")
        except RequestException as error:
            logger.warning("The provider of single sign-on cannot be reached: %s", error)
            return here
        back = self.request.build_absolute_uri(reverse("account_login"))
        query = {"client_id": settings.OIDC_CLIENT_ID, "post_logout_redirect_uri": back}
        return f"{end}?{urlencode(query)}" if end else here
