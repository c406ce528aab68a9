"""Signing up."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import auth, messages
from django.contrib.auth import password_validation
from django.contrib.auth.models import User
from django.contrib.auth.views import RedirectURLMixin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.http.response import HttpResponseBase
from django.shortcuts import render, resolve_url
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.generic import View

from accounts import operations
from accounts.errors import InvalidUsername, MixedScripts, SignUpClosed, UsernameTaken
from accounts.views.common import BACKEND, too_often
from ratelimits import http as limits
from ratelimits.errors import RateLimited

_NEW_PASSWORD = {"autocomplete": "new-password"}


class SignUpForm(forms.Form):
    """A name and a password, typed twice: nobody can be sent a new one."""

    username = forms.CharField(
        max_length=150,
        help_text="Letters, digits and @ . + - _",
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none", "autofocus": True}),
    )
    email = forms.EmailField(label="E-mail", required=False, widget=forms.EmailInput(attrs={"autocomplete": "email"}))
    password = forms.CharField(
        strip=False,
        widget=forms.PasswordInput(attrs=_NEW_PASSWORD),
        help_text=password_validation.password_validators_help_text_html,
    )
    again = forms.CharField(label="Password, again", strip=False, widget=forms.PasswordInput(attrs=_NEW_PASSWORD))

    def clean(self) -> dict[str, Any]:
        """The passwords are the same, and one that Django's validators find good for this name."""
        cleaned = self.cleaned_data
        password, again = cleaned.get("password"), cleaned.get("again")
        if password and again and password != again:
            self.add_error("again", "The passwords do not match.")
        if password:
            self._check_rules(password)
        return cleaned

    def _check_rules(self, password: str) -> None:
        # Of fields with faults of their own what was typed is compared: a password like the name is refused anyway.
        person = User(username=self.data.get("username", ""), email=self.data.get("email", ""))
        try:
            password_validation.validate_password(password, person)
        except forms.ValidationError as error:
            self.add_error("password", error)


@method_decorator([never_cache, sensitive_post_parameters("password", "again")], name="dispatch")
class SignUp(RedirectURLMixin, View):
    """Make an account and be in it. A guest keeps all that is theirs: the same account gets a name and a password."""

    http_method_names = ["get", "head", "post"]

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Who is in already goes on; nobody gets anywhere where the farm's operator closed this door."""
        if request.user.is_authenticated and not operations.is_guest(request.user):
            return HttpResponseRedirect(self.get_success_url())
        if not settings.JOBFARM["SIGN_UP"]:
            return render(request, "accounts/closed.html", {"refusal": SignUpClosed()}, status=403)
        return super().dispatch(request, *args, **kwargs)

    def get(self, request: HttpRequest) -> HttpResponse:
        return self._page(request, SignUpForm(), status=200)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Sign up, log in with a new session, and go on; or name all that is wrong at once."""
        form = SignUpForm(request.POST)
        try:
            user = self._signed_up(request, form)
        except (InvalidUsername, MixedScripts, UsernameTaken) as refusal:
            form.add_error("username", refusal.message)
            user = None
        except RateLimited as refusal:
            form.add_error(None, f"Too many people are signing up right now. Try again in {refusal.numbers['words']}.")
            return too_often(self._page(request, form, status=429), refusal)
        if user is None:
            return self._page(request, form, status=422)
        return self._welcome(request, user)

    def get_default_redirect_url(self) -> str:
        """The page for who did not come from another."""
        return resolve_url("/")

    def _signed_up(self, request: HttpRequest, form: SignUpForm) -> User | None:
        address = limits.address(request)
        if not form.is_valid():
            if "username" in form.cleaned_data:  # else it has a fault already
                operations.check_username(form.cleaned_data["username"], address=address)
            return None
        return operations.sign_up(
            form.cleaned_data["username"],
            password=form.cleaned_data["password"],
            email=form.cleaned_data["email"],
            address=address,
            guest=request.user if isinstance(request.user, User) else None,
        )

    def _welcome(self, request: HttpRequest, user: User) -> HttpResponse:
        auth.login(request, user, backend=BACKEND)
        messages.success(request, f"Welcome, {user.get_username()}.")
        return HttpResponseRedirect(self.get_success_url())

    def _page(self, request: HttpRequest, form: SignUpForm, *, status: int) -> HttpResponse:
        context = {"form": form, "next": self.get_redirect_url()}
        return render(request, "accounts/sign_up.html", context, status=status)
