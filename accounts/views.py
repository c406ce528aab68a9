"""Pages of a person's account."""

from typing import Any

from django import forms
from django.contrib import admin, auth, messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm, SetPasswordForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, LogoutView, RedirectURLMixin, redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render, resolve_url
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_POST, require_safe
from django.views.generic import View

from accounts import domain, operations, queries
from accounts.errors import InvalidName, LinkSpent, NotFound
from postgres import clock
from ratelimits import http as limits
from ratelimits.errors import RateLimited

BACKEND = "django.contrib.auth.backends.ModelBackend"


class LogInForm(AuthenticationForm):
    """Name and password, of which only so many are looked at.

    `refusal` is the limit's word where it was too many.
    """

    refusal: RateLimited | None = None

    def clean(self) -> dict[str, Any]:
        """Ask the limit, then look at the password. Each field alone was found good before."""
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

    Django warns that such a redirect tells other sites who is logged in; it does not where the session's
    cookie is SameSite, as it is here.
    """

    template_name = "accounts/login.html"
    authentication_form = LogInForm
    redirect_authenticated_user = True

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        """The form with what was wrong; 429 where too much was."""
        response = super().form_invalid(form)
        if isinstance(form, LogInForm) and form.refusal is not None:
            return _too_often(response, form.refusal)
        return response


@require_safe
@never_cache
def admin_log_in(request: HttpRequest) -> HttpResponse:
    """The administration has no log-in of its own: there is one door, with one limit on it.

    Whoever is logged in and may not enter the administration is told so.
    """
    if not request.user.is_authenticated:
        return redirect_to_login(request.GET.get("next") or reverse("admin:index"))
    if not admin.site.has_permission(request):
        raise PermissionDenied
    return redirect("admin:index")


class LogOut(LogoutView):
    """Log out, by POST alone."""


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
            return _too_often(render(request, "429.html", {"refusal": refusal}), refusal)
        auth.login(request, user, backend=BACKEND)
        if not user.has_usable_password():
            messages.info(
                request, "You have no password yet. Set one in your account, or come by a new link next time."
            )
        return HttpResponseRedirect(self.get_success_url())

    def get_default_redirect_url(self) -> str:
        """The page after a log-in that was not on the way to another."""
        return resolve_url("/")

    def _spent(self, request: HttpRequest) -> HttpResponse:
        return render(request, "accounts/link_spent.html", status=410)


class TokenForm(forms.Form):
    """What a new API token is for."""

    name = forms.CharField(
        label="What is it for?",
        max_length=domain.NAME_LIMIT,
        widget=forms.TextInput(attrs={"placeholder": "my laptop", "autocomplete": "off"}),
    )

    def __init__(self, user: User, data: Any = None) -> None:
        super().__init__(data)
        self._user = user

    def clean_name(self) -> str:
        """Names tell one's tokens apart; and a reload of the page that showed a key makes no second one."""
        name: str = self.cleaned_data["name"]
        if queries.tokens_of(self._user).filter(name=name).exists():
            raise forms.ValidationError(
                "You have an API token of this name already. Revoke it, or choose another name."
            )
        return name


@login_required
@never_cache
def account(request: HttpRequest) -> HttpResponse:
    """Who one is here, one's password and API tokens."""
    return _account_page(request)


@login_required
@require_POST
@sensitive_post_parameters()
@never_cache
def change_password(request: HttpRequest) -> HttpResponse:
    """Set a new password. Other sessions of this person end; this one goes on under a new key."""
    form = _password_form(_person(request), request.POST)
    if not form.is_valid():
        return _account_page(request, password_form=form)
    user = form.save()
    auth.update_session_auth_hash(request, user)
    messages.success(request, "Your password was changed. Everywhere else you are logged out.")
    return redirect("accounts:account")


@login_required
@require_POST
@never_cache
@sensitive_variables("key")
def create_token(request: HttpRequest) -> HttpResponse:
    """Make an API token and show its key, this once.

    The key is in the answer to the POST itself. A redirect would need it to be kept somewhere in between.
    """
    person = _person(request)
    form = TokenForm(person, request.POST)
    if not form.is_valid():
        return _account_page(request, token_form=form)
    try:
        token, key = operations.create_token(person, name=form.cleaned_data["name"])
    except InvalidName as refusal:
        form.add_error("name", refusal.message)
        return _account_page(request, token_form=form)
    jobs_url = request.build_absolute_uri("/api/v1/jobs")
    curl = f'curl -H "Authorization: Bearer {key}" {jobs_url}'
    return render(request, "accounts/token_created.html", {"token": token, "key": key, "curl": curl})


@login_required
@require_POST
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    """Revoke one of one's own API tokens."""
    person = _person(request)
    try:
        operations.revoke_token(token_id, by=person)
    except NotFound as refusal:
        raise Http404(refusal.message) from refusal
    messages.success(request, "The API token was revoked: it opens nothing any more.")
    return redirect(reverse("accounts:account") + "#tokens")


def _too_often(response: HttpResponse, refusal: RateLimited) -> HttpResponse:
    response.status_code = 429
    for field, value in limits.retry_headers(refusal).items():
        response.headers[field] = value
    return response


def _account_page(
    request: HttpRequest,
    *,
    password_form: "SetPasswordForm[User] | None" = None,
    token_form: TokenForm | None = None,
) -> HttpResponse:
    person = _person(request)
    context = {
        "groups": person.groups.order_by("name"),
        "tokens": queries.tokens_of(person),
        "password_form": password_form or _password_form(person, None),
        "token_form": token_form or TokenForm(person),
    }
    refused = password_form or token_form
    return render(request, "accounts/account.html", context, status=422 if refused else 200)


def _password_form(user: User, data: Any) -> "SetPasswordForm[User]":
    """The old password is asked for only where there is one: who came by a one-time link may have none."""
    form = PasswordChangeForm if user.has_usable_password() else SetPasswordForm
    return form(user, data)


def _person(request: HttpRequest) -> User:
    assert isinstance(request.user, User)  # login_required saw to it
    return request.user
