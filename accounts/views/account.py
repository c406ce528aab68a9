"""One's own account and its tokens; one's groups, one group's members and invitation, and the page that an invitation
opens."""

from collections.abc import Callable
from functools import partial
from typing import Any

from allauth.account.decorators import reauthentication_required
from allauth.usersessions.models import UserSession
from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import Group, User
from django.contrib.auth.views import RedirectURLMixin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404, redirect, render, resolve_url
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.debug import sensitive_variables
from django.views.generic import View

from accounts import domain, errors, operations, queries
from accounts.http import members_only
from accounts.views import closed, ways_in
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
    except (errors.InvalidName, errors.TooManyTokens) as refusal:
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


class GroupForm(forms.Form):
    name = forms.CharField(
        label="Name",
        max_length=domain.GROUP_NAME_LIMIT,
        widget=forms.TextInput(attrs={"placeholder": "Painters", "autocomplete": "off"}),
    )


class MemberForm(forms.Form):
    member = forms.ModelChoiceField(queryset=User.objects.none(), empty_label="Choose somebody")

    def __init__(self, group: Group, *, owner: User, data: Any = None) -> None:
        super().__init__(data)
        field: Any = self.fields["member"]
        field.queryset = group.user_set.exclude(pk=owner.pk).order_by("username")


@pages.guarded(login_required, pages.FORM)
def groups(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _groups_page(request, GroupForm(), status=200)
    form = GroupForm(request.POST)
    if not form.is_valid():
        return _groups_page(request, form, status=422)
    try:
        group = operations.create_group(form.cleaned_data["name"], by=people.person(request))
    except (errors.InvalidGroupName, errors.GroupNameTaken, errors.TooManyGroups) as refusal:
        form.add_error("name", refusal.message)
        return _groups_page(request, form, status=422)
    messages.success(request, "The group was created. Send its link to the people who should join.")
    return redirect("accounts:group", group.pk)


@pages.guarded(login_required)
def group(request: HttpRequest, group_id: int) -> HttpResponse:
    person = people.person(request)
    group = get_object_or_404(person.groups, pk=group_id)
    owner = operations.owner(group)
    token = operations.invitation(group, by=person)
    context = {
        "group": group,
        "owner": owner,
        "is_last": len(operations.members(group)) == 1,
        "link": request.build_absolute_uri(reverse("accounts:join", args=[token])) if token else None,
        "member_form": MemberForm(group, owner=person) if owner == person else None,
    }
    return render(request, "accounts/group.html", context)


@pages.guarded(login_required, pages.POST)
def invite(request: HttpRequest, group_id: int) -> HttpResponse:
    return _do(request, group_id, operations.invite, "The link was replaced. The old one no longer works.")


@pages.guarded(login_required, pages.POST)
def withdraw(request: HttpRequest, group_id: int) -> HttpResponse:
    return _do(request, group_id, operations.withdraw_invitation, "The link was withdrawn. Nobody can join with it.")


@pages.guarded(login_required, pages.POST)
def remove(request: HttpRequest, group_id: int) -> HttpResponse:
    person = people.person(request)
    group = get_object_or_404(person.groups, pk=group_id)
    form = MemberForm(group, owner=person, data=request.POST)
    if not form.is_valid():
        messages.error(request, "No member was chosen, or the member has already left the group.")
        return redirect("accounts:group", group_id)
    member = form.cleaned_data["member"]
    done = f"{member.get_username()} was removed, and the link they knew was replaced."
    return _do(request, group_id, partial(operations.remove_member, person=member), done)


@pages.guarded(login_required, pages.POST)
def leave(request: HttpRequest, group_id: int) -> HttpResponse:
    group = get_object_or_404(people.person(request).groups, pk=group_id)
    return _do(request, group_id, operations.leave, f"You left {group.name}.", is_way_out=True)


@method_decorator(pages.private, name="dispatch")
class Join(RedirectURLMixin, View):
    """What an invitation opens. Looking at it changes nothing, for programs look at links to preview them; the button
    joins. Who is not logged in is shown the ways in, each of which leads back here."""

    http_method_names = ["get", "head", "post"]

    def get(self, request: HttpRequest, token: str) -> HttpResponse:
        try:
            invited = operations.invited(token)
        except errors.InvitationUnknown as refusal:
            return closed(request, refusal)
        if isinstance(request.user, User) and operations.is_member(request.user, invited.group):
            return HttpResponseRedirect(self._goal(invited.group))
        context = {"invited": invited, "here": request.get_full_path(), "next": self.get_redirect_url()} | ways_in()
        return render(request, "accounts/join.html", context)

    def post(self, request: HttpRequest, token: str) -> HttpResponse:
        """Join, and go to the group, or where the link says if that is on this site."""
        if not isinstance(request.user, User):
            return redirect("accounts:join", token)
        try:
            group = operations.join(token, by=request.user)
        except (errors.InvitationUnknown, errors.GroupFull) as refusal:
            return closed(request, refusal)
        messages.success(request, f"You joined {group.name}.")
        return HttpResponseRedirect(self._goal(group))

    def _goal(self, group: Group) -> str:
        return self.get_redirect_url() or resolve_url("accounts:group", group.pk)


def _groups_page(request: HttpRequest, form: GroupForm, *, status: int) -> HttpResponse:
    context = {"groups": queries.groups_with_counts(people.person(request)), "form": form}
    return render(request, "accounts/groups.html", context, status=status)


def _do(
    request: HttpRequest, group_id: int, change: Callable[..., object], done: str, *, is_way_out: bool = False
) -> HttpResponse:
    person = people.person(request)
    group = get_object_or_404(person.groups, pk=group_id)
    try:
        change(group, by=person)
    except (errors.NotTheOwner, errors.NotAMember) as refusal:
        of_staff = "Only an administrator can remove you from this group."
        messages.error(request, of_staff if is_way_out else refusal.message)
        return redirect("accounts:group", group_id)
    messages.success(request, done)
    return redirect("accounts:groups") if is_way_out else redirect("accounts:group", group_id)
