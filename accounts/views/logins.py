"""The ways in: name and password, a new account, a one-time link. From there to the session it is allauth's."""

from typing import Any

from allauth.account import forms
from allauth.account.utils import perform_login
from allauth.account.views import LoginView, SignupView
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.views import RedirectURLMixin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render, resolve_url
from django.utils.crypto import constant_time_compare
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_variables
from django.views.generic import View

from accounts import operations
from accounts.errors import AccountsError, LinkSpent, SignUpClosed, SingleSignOnOnly
from accounts.views import single_sign_on
from accounts.views.common import closed, ways_in
from core import pages
from postgres import clock
from ratelimits import http as limits


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


class LogInForm(forms.LoginForm):  # type: ignore[misc]
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
            return closed(request, SingleSignOnOnly())
        answer: HttpResponse = super().post(request, *args, **kwargs)
        return answer


class SignUpForm(forms.SignupForm):  # type: ignore[misc]
    """A name, an e-mail address if one likes, and a password, typed twice."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        username = self.fields["username"]
        username.help_text = "Letters, digits and @ . + - _"
        username.widget.attrs |= {"autofocus": True, "autocapitalize": "none"}
        self.fields["email"].label, self.fields["password2"].label = "E-mail", "Password, again"

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
        operations.begin_sign_up(address=limits.address(request))
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
            return self._spent(request)
        return render(request, "accounts/one_time_link.html", {"next": self.get_redirect_url()})

    def post(self, request: HttpRequest, token: str) -> HttpResponse:
        """Log in, in a new session, and go where the link says if that is on this site."""
        try:
            user = operations.redeem(token, now=clock.now(), address=limits.address(request))
        except LinkSpent:
            operations.audit("log_in_failed", None, "one-time link")
            return self._spent(request)
        way = {"way": "one-time link"}
        response: HttpResponse = perform_login(request, user, redirect_url=self.get_success_url(), signal_kwargs=way)
        if not user.has_usable_password():
            messages.info(request, "You have no password yet. Set one in your account, or use a new link next time.")
        return response

    def _spent(self, request: HttpRequest) -> HttpResponse:
        return render(request, "accounts/link_spent.html", status=410)
