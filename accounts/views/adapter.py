"""What django-allauth asks of this farm (docs/adr/0120): who may sign up and how called, how often one may try."""

import logging
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.authentication import get_authentication_records
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme

from accounts import operations
from accounts.errors import AccountsError
from accounts.views import single_sign_on
from accounts.views.common import ways_in
from live import addresses
from ratelimits import http as limits

logger = logging.getLogger(__name__)
_WAYS = {"socialaccount": "single sign-on", "mfa": "second factor", "password_reset": "password by mail"}
_SHOWN = "account_authentication_methods"  # under which allauth keeps what somebody showed in this session, and who


class Adapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth ships no types
    """The rules of this farm, where they are not allauth's own."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:  # noqa: ARG002  # allauth's signature, here and below
        return ways_in()["can_sign_up"]

    def clean_username(self, username: str, shallow: bool = False) -> str:
        """The name as it is stored. A `shallow` look, at names that allauth makes up, asks no table."""
        try:
            return operations.fit_username(username) if shallow else operations.check_username(username)
        except AccountsError as refusal:
            raise forms.ValidationError(refusal.message, code=refusal.code) from refusal

    def save_user(self, request: HttpRequest, user: User, form: Any, commit: bool = True) -> User:  # noqa: ARG002
        """Whom the form describes; a guest who signs up keeps the account. Raises UsernameTaken, RateLimited."""
        fields = form.cleaned_data
        guest = request.user if isinstance(request.user, User) else None
        return operations.sign_up(
            fields["username"], password=fields.get("password1"), email=fields.get("email") or "", guest=guest
        )

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Count the try before the password is checked. Raises RateLimited."""
        operations.begin_log_in(credentials["username"], address=limits.address(request))

    def authenticate(self, request: HttpRequest, **credentials: Any) -> User | None:
        """The person, whose failures are forgotten then; None for a wrong name or password."""
        user: User | None = super().authenticate(request, **credentials)
        operations.end_log_in(credentials["username"], user, address=limits.address(request))
        return user

    def pre_login(self, request: HttpRequest, user: User, **details: Any) -> HttpResponse | None:
        """Who is in under another account is out, also while a second factor is asked for; a guest is one no more."""
        refused: HttpResponse | None = super().pre_login(request, user, **details)
        if refused is None and request.user.is_authenticated and request.user != user:
            shown = {key: value for key, value in request.session.items() if key.startswith(_SHOWN)}
            self.logout(request)
            request.session.update(shown)
        return refused

    def post_login(self, request: HttpRequest, user: User, **details: Any) -> HttpResponse:
        """In. Of who came by single sign-on the provider's claims are followed first."""
        more = details.get("signal_kwargs") or {}
        ways = [more["way"]] if "way" in more else []
        ways += [_WAYS.get(shown["method"], shown["method"]) for shown in get_authentication_records(request, user)]
        operations.audit("log_in", user, ", ".join(dict.fromkeys(ways)))
        if "sociallogin" in more:
            single_sign_on.come_in(request, user, more["sociallogin"])
        response: HttpResponse = super().post_login(request, user, **details)
        return response

    def logout(self, request: HttpRequest) -> None:
        """For a guest that is the end: there is no way back in."""
        if isinstance(request.user, User) and not operations.end_guest(request.user):
            operations.audit("log_out", request.user)
        super().logout(request)

    def get_client_ip(self, request: HttpRequest) -> str:
        """Where a session began: the server's word, as for the farm's own limits."""
        address: str = request.META.get("REMOTE_ADDR") or ""
        return address if addresses.network(address) else "0.0.0.0"  # noqa: S104  # unknown

    def send_mail(self, template_prefix: str, email: str, context: dict[str, Any]) -> None:
        """Send it. Where the server takes none the log says so: the page is the same for an address that nobody has."""
        try:
            super().send_mail(template_prefix, email, context)
        except OSError:  # SMTPException too
            logger.exception("A mail could not be sent: %s", template_prefix)

    def add_message(
        self, request: HttpRequest, level: int, message_template: str | None = None, *args: Any, **more: Any
    ) -> None:
        """What allauth says; not that a mail is on its way where the farm sends none."""
        if message_template == "account/messages/email_confirmation_sent.txt" and not settings.HAS_MAIL_SERVER:
            messages.warning(request, "This farm sends no mail: the address stays unverified.")
        else:
            super().add_message(request, level, message_template, *args, **more)

    def is_safe_url(self, url: str) -> bool:
        """Whether this leads to the name that the site was asked for by, and not to another of its names."""
        return url_has_allowed_host_and_scheme(
            url, allowed_hosts={self.request.get_host()}, require_https=self.request.is_secure()
        )

    def is_reauthentication_required(self, *, app: str, **details: Any) -> bool:
        """Who has neither password nor second factor can show none."""
        can_show = bool(self.get_reauthentication_methods(self.request.user))
        return can_show and bool(super().is_reauthentication_required(app=app, **details))

    def get_login_stages(self) -> list[str]:
        """What stands between a right password and the session."""
        return [*super().get_login_stages(), "accounts.views.second_factors.SetUpStage"]

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:  # noqa: ARG002
        return reverse("accounts:account")
