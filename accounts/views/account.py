"""The page of one's own account: password and API tokens."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import auth, messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_POST

from accounts import domain, operations, queries
from accounts.errors import InvalidName, NotFound, TooManyTokens
from accounts.http import members_only
from accounts.views.common import ways_in
from core import people


class TokenForm(forms.Form):
    name = forms.CharField(
        label="What is it for?",
        max_length=domain.NAME_LIMIT,
        widget=forms.TextInput(attrs={"placeholder": "my laptop", "autocomplete": "off"}),
    )
    scopes = forms.MultipleChoiceField(
        label="What may it do?",
        choices=[
            ("submit", "Submit jobs"),
            ("read", "Read jobs, their output and files"),
            ("operate", "Cancel jobs, retry them, run them now"),
            ("endpoints", "Say where the farm posts events to; job results too, with Read"),
        ],
        initial=("submit", "read", "operate"),
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": "Choose at least one permission."},
    )
    days = forms.TypedChoiceField(
        label="How long is it valid?",
        choices=[("30", "30 days"), ("90", "90 days"), ("365", "A year"), ("", "Until it is revoked")],
        initial="90",
        required=False,
        coerce=int,
        empty_value=None,
    )

    def __init__(self, user: User, data: Any = None) -> None:
        super().__init__(data)
        self._user = user

    def clean_name(self) -> str:
        """Names distinguish one's tokens; and a reload of the page that showed a key makes no second one."""
        name: str = self.cleaned_data["name"]
        if queries.tokens_of(self._user).filter(name=name).exists():
            raise forms.ValidationError("You already have an API token of this name. Revoke it or choose another name.")
        return name


@login_required
@never_cache
def account(request: HttpRequest) -> HttpResponse:
    """Who one is here, one's password and API tokens."""
    return _account_page(request)


@members_only
@require_POST
@sensitive_post_parameters()
@never_cache
def change_password(request: HttpRequest) -> HttpResponse:
    """Set a new password. Other sessions of this person end; this one goes on under a new key."""
    form = _password_form(people.person(request), request.POST)
    if not form.is_valid():
        return _account_page(request, password_form=form)
    user = form.save()
    auth.update_session_auth_hash(request, user)
    messages.success(request, "Your password was changed. You are logged out everywhere else.")
    return redirect("accounts:account")


@members_only
@require_POST
@never_cache
@sensitive_variables("key")
def create_token(request: HttpRequest) -> HttpResponse:
    """Make an API token and show its key, this once.

    The key is in the answer to the POST itself. A redirect would need it to be kept somewhere in between.
    """
    person = people.person(request)
    form = TokenForm(person, request.POST)
    if not form.is_valid():
        return _account_page(request, token_form=form)
    try:
        token, key = operations.create_token(person, **form.cleaned_data)
    except (InvalidName, TooManyTokens) as refusal:
        form.add_error("name", refusal.message)
        return _account_page(request, token_form=form)
    jobs_url = request.build_absolute_uri("/api/v1/jobs")
    curl = f'curl -H "Authorization: Bearer {key}" {jobs_url}'
    return render(request, "accounts/token_created.html", {"token": token, "key": key, "curl": curl})


@login_required
@require_POST
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    person = people.person(request)
    try:
        operations.revoke_token(token_id, by=person)
    except NotFound as refusal:
        raise Http404(refusal.message) from refusal
    messages.success(request, "The API token was revoked.")
    return redirect(reverse("accounts:account") + "#tokens")


def _account_page(
    request: HttpRequest, *, password_form: "SetPasswordForm[User] | None" = None, token_form: TokenForm | None = None
) -> HttpResponse:
    person = people.person(request)
    context = {
        "groups": queries.groups_of(person),
        "guest": queries.guest(person),
        "tokens": queries.tokens_of(person),
        "password_form": password_form or _password_form(person, None),
        "token_form": token_form or TokenForm(person),
        "permissions": _permissions(person),
        "cards": settings.ACCOUNT_CARDS,
    } | ways_in()
    refused = password_form or token_form
    return render(request, "accounts/account.html", context, status=422 if refused else 200)


def _permissions(user: User) -> str:
    """What somebody may do here, in a few words."""
    if user.is_superuser:
        return "everything"
    if user.has_perm("jobs.operate_job"):
        return "operate the farm"
    return "look around, join groups" if queries.guest(user) else "submit and follow jobs"


def _password_form(user: User, data: Any) -> "SetPasswordForm[User]":
    """The old password is required only where there is one: who came by a one-time link may have none."""
    form = (PasswordChangeForm if user.has_usable_password() else SetPasswordForm)(user, data)
    for field in form.fields.values():  # the page is not about this form alone: a phone would scroll past the rest
        field.widget.attrs.pop("autofocus", None)
    return form
