"""The ways in and out: name and password, a one-time link, the log-out."""

from typing import Any

from django import forms
from django.contrib import admin, auth, messages
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, LogoutView, RedirectURLMixin, redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render, resolve_url
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_safe
from django.views.generic import View

from accounts import operations
from accounts.errors import LinkSpent
from accounts.views.common import BACKEND, too_often, too_often_page, ways_in
from postgres import clock
from ratelimits import http as limits
from ratelimits.errors import RateLimited


class LogInForm(AuthenticationForm):
    """Name and password, of which only so many are checked.

    `refusal` is the limit's word where it was too many.
    """

    refusal: RateLimited | None = None

    def clean(self) -> dict[str, Any]:
        """Check the limit, then the password. Each field alone was valid before."""
        username, password = (self.cleaned_data.get(field) for field in ("username", "password"))
        if username is None or not password:
            return super().clean()
        address = limits.address(self.request)  # type: ignore[arg-type]  # LoginView gives it one
        try:
            operations.begin_log_in(username, address=address)
        except RateLimited as refusal:
            self.refusal = refusal
            sentence = f"Too many failed log-ins. Try again in {refusal.numbers['words']}."
            raise forms.ValidationError(sentence, code=refusal.code) from refusal
        cleaned = super().clean()
        operations.end_log_in(username, address=address)
        return cleaned


class LogIn(LoginView):
    """Log in by name and password. Whoever is logged in goes on to where they wanted to go.

    Django warns that such a redirect reveals to other sites who is logged in; it does not where the session's
    cookie is SameSite, as it is here.
    """

    template_name = "accounts/login.html"
    authentication_form = LogInForm
    redirect_authenticated_user = True

    def get_context_data(self, **context: Any) -> dict[str, Any]:
        """The form, and which other ways in there are."""
        return super().get_context_data(**context) | ways_in()

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Guests are let through to the form: they may have an account of their own."""
        self.redirect_authenticated_user = not operations.is_guest(request.user)
        return super().dispatch(request, *args, **kwargs)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        """In. A guest who had an account of their own is a guest no more."""
        _end_guest(self.request)
        return super().form_valid(form)

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        """The form with what was wrong; 429 where too much was."""
        response = super().form_invalid(form)
        if isinstance(form, LogInForm) and form.refusal is not None:
            return too_often(response, form.refusal)
        return response


@require_safe
@never_cache
def admin_log_in(request: HttpRequest) -> HttpResponse:
    """The administration has no log-in of its own: there is one door, with one limit on it.

    Whoever is logged in and may not enter the administration sees why.
    """
    if not request.user.is_authenticated:
        return redirect_to_login(request.GET.get("next") or reverse("admin:index"))
    if not admin.site.has_permission(request):
        raise PermissionDenied
    return redirect("admin:index")


class LogOut(LogoutView):
    """Log out, by POST alone. For a guest that is the end: there is no way back in."""

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        _end_guest(request)
        return super().post(request, *args, **kwargs)


@method_decorator([never_cache, sensitive_variables("token")], name="dispatch")
class OneTimeLinkPage(RedirectURLMixin, View):
    """What a one-time link shows.

    Looking at it changes nothing: programs that preview links in mails and chats look at them first, and
    would use them up. The button logs in.
    """

    http_method_names = ["get", "head", "post"]

    def get(self, request: HttpRequest, token: str) -> HttpResponse:
        """The button, or what to do when the link is spent."""
        if not operations.is_usable(token, now=clock.now()):
            return self._spent(request)
        return render(request, "accounts/one_time_link.html", {"next": self.get_redirect_url()})

    def post(self, request: HttpRequest, token: str) -> HttpResponse:
        """Log in, in a new session, and go where the link says if that is on this site."""
        try:
            user = operations.redeem(token, now=clock.now(), address=limits.address(request))
        except LinkSpent:
            return self._spent(request)
        except RateLimited as refusal:
            return too_often_page(request, refusal)
        if request.user != user:
            _end_guest(request)
        auth.login(request, user, backend=BACKEND)
        if not user.has_usable_password():
            messages.info(request, "You have no password yet. Set one in your account, or use a new link next time.")
        return HttpResponseRedirect(self.get_success_url())

    def get_default_redirect_url(self) -> str:
        """The page after a log-in that was not on the way to another."""
        return resolve_url("/")

    def _spent(self, request: HttpRequest) -> HttpResponse:
        return render(request, "accounts/link_spent.html", status=410)


def _end_guest(request: HttpRequest) -> None:
    if isinstance(request.user, User):
        operations.end_guest(request.user)
