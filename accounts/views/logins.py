"""The ways in: name and password, a new account, a one-time link; and the second factors, to which some are led at the
log-in. From there to the session it is django-allauth's (docs/adr/0120), which asks the adapter who may sign up and how
called, and how often one may try."""

import base64
import logging
import secrets
from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.authentication import get_authentication_records
from allauth.account.forms import LoginForm, SignupForm
from allauth.account.internal.decorators import login_stage_required
from allauth.account.internal.flows.login import record_authentication
from allauth.account.stages import LoginStage
from allauth.account.utils import perform_login
from allauth.account.views import LoginView, SignupView
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.totp.forms import ActivateTOTPForm
from allauth.mfa.totp.internal.flows import activate_totp
from django import forms
from django.conf import settings
from django.contrib import auth, messages
from django.contrib.auth.models import User
from django.contrib.auth.views import RedirectURLMixin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render, resolve_url
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.debug import sensitive_variables
from django.views.generic import FormView, View

from accounts import domain, operations
from accounts.errors import AccountsError, LinkSpent, SignUpClosed
from accounts.limits import SIGN_UP_TRY
from accounts.views import closed, single_sign_on, ways_in
from core import pages
from core.sealing import CannotUnseal
from live import addresses
from postgres import clock
from ratelimits import http as limits, operations as ratelimits

logger = logging.getLogger(__name__)
_WAYS = {"socialaccount": "single sign-on", "mfa": "second factor", "password_reset": "password by mail"}
_SHOWN = "account_authentication_methods"  # under which allauth keeps what somebody showed in this session, and who


class _ForVisitors:
    """A door: who is in already goes on, but for guests, who may have an account of their own, or want one."""

    request: HttpRequest

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        is_in = request.user.is_authenticated and not operations.is_guest(request.user)
        if is_in or single_sign_on.come_by_proxy(request):
            return HttpResponseRedirect(self.get_next_url() or resolve_url("/"))  # type: ignore[attr-defined]  # NextRedirectMixin
        return super().dispatch(request, *args, **kwargs)  # type: ignore[misc, no-any-return]  # of a view

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        more = {"next": self.get_next_url() or ""} | ways_in()  # type: ignore[attr-defined]
        return super().get_context_data(**context) | more  # type: ignore[misc, no-any-return]


class LogInForm(LoginForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["login"].widget.attrs |= {"autofocus": True, "autocapitalize": "none"}


@method_decorator(pages.private, name="dispatch")
class LogIn(_ForVisitors, LoginView):  # type: ignore[misc]
    """Log in by name and password. Whoever is logged in goes on to where they wanted to go.

    Django warns that such a redirect reveals to other sites who is logged in; it does not where the session's
    cookie is SameSite, as it is here.
    """

    form_class = LogInForm

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if settings.SSO_ONLY:
            ways = "log in with your organisation's account, or by a link of whoever runs the farm"
            return closed(request, AccountsError(f"This farm takes no passwords: {ways}."), status=403)
        answer: HttpResponse = super().post(request, *args, **kwargs)
        return answer


class SignUpForm(SignupForm):  # type: ignore[misc]
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        username = self.fields["username"]
        username.help_text = "Letters, digits and @ . + - _"
        username.widget.attrs |= {"autofocus": True, "autocapitalize": "none"}
        self.fields["email"].label, self.fields["password2"].label = "Email", "Password, again"

    def clean(self) -> dict[str, Any]:
        """What allauth finds, and passwords that differ also where the first is no good."""
        cleaned: dict[str, Any] = super().clean()
        first, second = (self.data.get(name, "") for name in ("password1", "password2"))
        if "password1" in self.errors and not constant_time_compare(first, second):
            self.add_error("password2", "You must type the same password each time.")
        return cleaned


@method_decorator(pages.private, name="dispatch")
class SignUp(_ForVisitors, SignupView):  # type: ignore[misc]
    """Make an account and be in it. A guest keeps all that is theirs: the same account gets a name and a password."""

    form_class = SignUpForm

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        ratelimits.limit(SIGN_UP_TRY, key=limits.address(request), throws=True)
        answer: HttpResponse = super().post(request, *args, **kwargs)
        return answer

    def closed(self) -> HttpResponse:
        return closed(self.request, SignUpClosed())

    def form_valid(self, form: SignUpForm) -> HttpResponse:
        try:
            response: HttpResponse = super().form_valid(form)
        except AccountsError as refusal:
            form.add_error("username", refusal.message)
            return self.form_invalid(form)
        messages.success(self.request, f"Welcome, {form.cleaned_data['username']}.")
        return response

    def form_invalid(self, form: SignUpForm) -> HttpResponse:
        response: HttpResponse = super().form_invalid(form)
        response.status_code = 422
        return response


@method_decorator([pages.private, sensitive_variables("token")], name="dispatch")
class OneTimeLinkPage(RedirectURLMixin, View):
    """What a one-time link shows. Looking at it changes nothing: programs that preview links in mails and chats look at
    them first, and would use them up. The button logs in."""

    http_method_names = ["get", "head", "post"]
    next_page = "/"

    def get(self, request: HttpRequest, token: str) -> HttpResponse:
        if not operations.is_usable(token, now=clock.now()):
            return closed(request, LinkSpent())
        return render(request, "accounts/one_time_link.html", {"next": self.get_redirect_url()})

    def post(self, request: HttpRequest, token: str) -> HttpResponse:
        """Log in, in a new session, and go where the link says if that is on this site."""
        try:
            user = operations.redeem(token, now=clock.now(), address=limits.address(request))
        except LinkSpent as refusal:
            operations.audit("log_in_failed", None, "one-time link")
            return closed(request, refusal)
        way = {"way": "one-time link"}
        response: HttpResponse = perform_login(request, user, redirect_url=self.get_success_url(), signal_kwargs=way)
        if not user.has_usable_password():
            messages.info(request, "You have no password yet. Set one in your account, or use a new link next time.")
        return response


class Adapter(DefaultAccountAdapter):  # type: ignore[misc]  # allauth ships no types
    """The rules of this farm, where they are not allauth's own."""

    too_many = {"too_many_login_attempts": "Too many wrong codes. Try again in an hour."}
    error_messages = {**DefaultAccountAdapter.error_messages, **too_many}

    def is_open_for_signup(self, request: HttpRequest) -> bool:  # noqa: ARG002  # allauth's signature, here and below
        return ways_in()["can_sign_up"]

    def clean_username(self, username: str, shallow: bool = False) -> str:
        """The name as it is stored: none that would be taken for the farm's own, or that looks like another's."""
        name: str = super().clean_username(User.normalize_username(username.strip()), shallow)
        if domain.is_reserved(name):
            raise self.validation_error("username_taken")
        if domain.mixes_scripts(name):
            raise forms.ValidationError("A username is written in one script: this one mixes letters of several.")
        return name

    def save_user(self, request: HttpRequest, user: User, form: Any, commit: bool = True) -> User:  # noqa: ARG002
        """Whom the form describes; a guest who signs up keeps the account. Raises UsernameTaken, RateLimited."""
        guest = request.user if isinstance(request.user, User) else None
        return operations.sign_up(super().save_user(request, user, form, commit=False), guest=guest)

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Count the try before the password is checked. Raises RateLimited."""
        operations.begin_log_in(credentials["username"], address=limits.address(request))

    def authenticate(self, request: HttpRequest, **credentials: Any) -> User | None:
        """The person, whose failures are forgotten then; None for a wrong name or password."""
        user: User | None = super().authenticate(request, **credentials)
        operations.end_log_in(credentials["username"], user, address=limits.address(request))
        return user

    def pre_login(self, request: HttpRequest, user: User, **details: Any) -> HttpResponse | None:
        """Who is in under another account is out, also while a second factor is asked for; a guest is one no more, and
        who was one until this sign-up comes in anew."""
        refused: HttpResponse | None = super().pre_login(request, user, **details)
        if refused is None and request.user.is_authenticated and (details["signup"] or request.user != user):
            shown = {key: value for key, value in request.session.items() if key.startswith(_SHOWN)}
            (auth.logout if request.user == user else self.logout)(request)
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

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        """Who has neither password nor second factor comes by single sign-on anew, if they came so."""
        return super().get_reauthentication_methods(user) or single_sign_on.ways_to_come_anew(self.request)

    def is_reauthentication_required(self, *, app: str, **details: Any) -> bool:
        """Who can show nothing is asked nothing; nor is who has just shown it to the provider."""
        methods = self.get_reauthentication_methods(self.request.user)
        if not methods or (methods[0]["id"] == single_sign_on.PROVIDER and single_sign_on.has_just_come(self.request)):
            return False
        return bool(super().is_reauthentication_required(app=app, **details))

    def get_login_stages(self) -> list[str]:
        """What stands between a right password and the session."""
        return [*super().get_login_stages(), "accounts.views.logins.SetUpStage"]

    def get_password_change_redirect_url(self, request: HttpRequest) -> str:  # noqa: ARG002
        return reverse("accounts:account")


class SecondFactors(DefaultMFAAdapter):  # type: ignore[misc]
    """How the secrets of second factors are kept, and which of them may go."""

    def encrypt(self, text: str) -> str:
        """As it is stored: who reads the tables makes no code of it."""
        return operations.SEALER.seal(text).decode()

    def decrypt(self, encrypted_text: str) -> str:
        """What was sealed; where that was under another SECRET_KEY, a secret that nobody knows: no code fits it, and
        the pages of second factors go on."""
        try:
            return operations.SEALER.unseal(encrypted_text.encode())
        except CannotUnseal:
            logger.exception(
                "A second factor was sealed under a SECRET_KEY that is not among SECRET_KEY_FALLBACKS: no code fits "
                "it, and an administrator can take it away."
            )
            return base64.b32encode(secrets.token_bytes(20)).decode()

    def can_delete_authenticator(self, authenticator: Any) -> bool:
        """Not the last one of somebody who must have one."""
        others = operations.second_factors(authenticator.user).exclude(pk=authenticator.pk)
        return not operations.must_have_second_factor(authenticator.user) or others.exists()


class SetUpStage(LoginStage):  # type: ignore[misc]
    """The step of a log-in at which somebody sets up a second factor who must have one and has none."""

    key = "set_up_second_factor"
    urlname = "mfa_set_up"

    def handle(self) -> tuple[HttpResponse | None, bool]:
        more = self.login.signal_kwargs or {}  # a provider of single sign-on asks for second factors by its own rules
        must = "sociallogin" not in more and operations.must_have_second_factor(self.login.user)
        has = not must or operations.second_factors(self.login.user).exists()
        return None if has else redirect(self.urlname), True


@method_decorator(login_stage_required(stage=SetUpStage.key, redirect_urlname="account_login"), name="dispatch")
class SetUp(FormView):  # type: ignore[type-arg]  # Django 6 has it plain
    """Set up an authenticator app, and be in with that: before there is no session."""

    template_name = "mfa/totp/activate_form.html"
    form_class = ActivateTOTPForm
    request: Any

    def get_form_kwargs(self) -> dict[str, Any]:
        return super().get_form_kwargs() | {"user": self.request._login_stage.login.user}  # noqa: SLF001 (how allauth hands it on)

    def get_context_data(self, **more: Any) -> dict[str, Any]:
        context = super().get_context_data(**more)
        adapter, form = SecondFactors(self.request), context["form"]
        picture = adapter.build_totp_svg(adapter.build_totp_url(form.user, form.secret)).encode()
        address = f"data:image/svg+xml;base64,{base64.b64encode(picture).decode()}"
        return context | {"totp_svg_data_uri": address, "is_log_in": True}

    def form_valid(self, form: Any) -> HttpResponse:
        """In, and to the recovery codes: they have just shown all that these are shown for."""
        stage, self.request.user = self.request._login_stage, form.user  # noqa: SLF001
        record_authentication(self.request, form.user, "mfa", reauthenticated=True)
        activate_totp(self.request, form)
        stage.login.redirect_url = reverse("mfa_view_recovery_codes")
        done: HttpResponse = stage.exit()
        return done
