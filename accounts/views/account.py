from typing import Any

from allauth.account.decorators import reauthentication_required
from allauth.usersessions.models import UserSession
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.debug import sensitive_variables

from accounts import domain, operations, queries
from accounts.errors import InvalidName, TooManyTokens
from accounts.http import members_only
from accounts.views import ways_in
from core import pages, people


class TokenForm(forms.Form):
    name = forms.CharField(
        label="What is it for?",
        max_length=domain.NAME_LIMIT,
        widget=forms.TextInput(attrs={"placeholder": "my laptop", "autocomplete": "off"}),
        help_text="Programs come in by it alone: they are asked for no second factor.",
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
    keep_content = forms.TypedChoiceField(
        label="How long are prompts, answers, output and files kept?",
        choices=[("", "As long as the job"), ("no", "Minutes after its end")], required=False,
        coerce=lambda kept: kept != "no", empty_value=True,  # type: ignore[arg-type]  # any value, by Django's docs
    )  # fmt: skip
    days = forms.TypedChoiceField(
        label="How long is it valid?",
        choices=[("30", "30 days"), ("90", "90 days"), ("365", "A year"), ("", "Until it is revoked")], initial="90",
        required=False, coerce=int, empty_value=None,
    )  # fmt: skip

    def __init__(self, user: User, data: Any = None) -> None:
        super().__init__(data)
        self._user = user

    def clean_name(self) -> str:
        """Names distinguish one's tokens; and a reload of the page that showed a key makes no second one."""
        name: str = self.cleaned_data["name"]
        if queries.tokens_of(self._user).filter(name=name).exists():
            raise forms.ValidationError("You already have an API token of this name. Revoke it or choose another name.")
        return name


@pages.guarded(login_required)
def account(request: HttpRequest) -> HttpResponse:
    return _account_page(request)


@pages.guarded(members_only, pages.FORM)
@reauthentication_required(app="accounts", allow_get=True)  # type: ignore[untyped-decorator]  # allauth ships no types
@sensitive_variables("key")
def create_token(request: HttpRequest) -> HttpResponse:
    """Make an API token and show its key, this once. The key is in the answer to the POST itself. A redirect would need
    it to be kept somewhere in between."""
    if request.method != "POST":  # single sign-on, where somebody had to come anew, leads back by the address alone
        return redirect(reverse("accounts:account") + "#tokens")
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


@pages.guarded(login_required, pages.POST)
def revoke_token(request: HttpRequest, token_id: int) -> HttpResponse:
    operations.revoke_token(token_id, by=people.person(request))
    messages.success(request, "The API token was revoked.")
    return redirect(reverse("accounts:account") + "#tokens")


@pages.guarded(members_only, pages.POST)
def end_session(request: HttpRequest, session_id: int) -> HttpResponse:
    others = UserSession.objects.filter(user=people.person(request)).exclude(session_key=request.session.session_key)
    get_object_or_404(others, pk=session_id).end()
    operations.audit("log_out", people.person(request), "another session")
    messages.success(request, "The session was ended.")
    return redirect("usersessions_list")


def _account_page(request: HttpRequest, *, token_form: TokenForm | None = None) -> HttpResponse:
    person = people.person(request)
    context = {
        "groups": queries.groups_of(person),
        "guest": queries.guest(person),
        "tokens": queries.tokens_of(person),
        "token_form": token_form or TokenForm(person),
        "permissions": _permissions(person),
        "cards": settings.ACCOUNT_CARDS,
    } | ways_in()
    return render(request, "accounts/account.html", context, status=422 if token_form else 200)


def _permissions(user: User) -> str:
    if user.is_superuser:
        return "everything"
    if user.has_perm("jobs.operate_job"):
        return "operate the farm"
    return "look around, join groups" if queries.guest(user) else "submit and follow jobs"
