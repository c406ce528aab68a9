"""Refusals of the app: each class states its code, its HTTP status and, as its docstring, its sentence."""

from core.refusal import Refusal


class AccountsError(Refusal):
    """The request cannot be carried out."""


class Unauthorized(AccountsError):
    """This API token is not known, was revoked, or belongs to somebody who may no longer log in."""

    code = "unauthorized"
    http_status = 401


class CsrfFailed(AccountsError):
    """A browser's session needs the CSRF token with it: reload the page, or use an API token instead."""

    code = "csrf_failed"
    http_status = 403


class LinkSpent(AccountsError):
    """This link was used already, has run out, or never was one."""

    code = "link_spent"
    http_status = 410


class InactiveUser(AccountsError):
    """{username} may not log in: the account is switched off."""

    code = "inactive_user"
    http_status = 403


class InvalidName(AccountsError):
    """A token needs a name of 1 to {limit} characters that can be printed."""

    code = "invalid_name"
    http_status = 422


class NotFound(AccountsError):
    """There is no such API token."""

    code = "not_found"
    http_status = 404


class InvalidGroupName(AccountsError):
    """A group needs a name of 1 to {limit} characters that can be printed."""

    code = "invalid_group_name"
    http_status = 422


class GroupNameTaken(AccountsError):
    """There is a group called {name} already: choose another name."""

    code = "group_name_taken"
    http_status = 409


class InvitationUnknown(AccountsError):
    """This invitation opens no group: it was replaced, withdrawn, or part of it is missing. Ask for a new link."""

    code = "invitation_unknown"
    http_status = 404


class GroupFull(AccountsError):
    """This group is full: it has {limit} members, which is the most there can be."""

    code = "group_full"
    http_status = 409


class NotAMember(AccountsError):
    """That takes being a member of this group."""

    code = "not_a_member"
    http_status = 403


class NotTheOwner(AccountsError):
    """That is for the one alone who keeps this group: whoever has been in it longest."""

    code = "not_the_owner"
    http_status = 403


class SignUpClosed(AccountsError):
    """Nobody can sign up here by themselves: ask whoever runs this farm for an account."""

    code = "sign_up_closed"
    http_status = 403


class GuestsClosed(AccountsError):
    """This farm lets no guests in: log in, or sign up."""

    code = "guests_closed"
    http_status = 403


class InvalidUsername(AccountsError):
    """A username has 1 to {limit} letters, digits and @ . + - _ and nothing else."""

    code = "invalid_username"
    http_status = 422


class NoScope(AccountsError):
    """Choose at least one thing that the token may do: {scopes}."""

    code = "no_scope"
    http_status = 422


class InvalidDays(AccountsError):
    """A token is good for more than 0 and at most {most} days, or until it is revoked."""

    code = "invalid_days"
    http_status = 422


class InsufficientScope(AccountsError):
    """This API token may not {scope}: it was made for {scopes} alone."""

    code = "insufficient_scope"
    http_status = 403


class MixedScripts(AccountsError):
    """A username is written in one script: {username} mixes letters of several, and could be read as another's."""

    code = "mixed_scripts"
    http_status = 422


class UsernameTaken(AccountsError):
    """The username {username} is taken: choose another."""

    code = "username_taken"
    http_status = 409


class MembersOnly(AccountsError):
    """That is not for guests: sign up, and what you have here stays yours."""

    code = "members_only"
    http_status = 403


class CaptchaFailed(AccountsError):
    """Those were not the letters, or the picture was too old. Here is another one."""

    code = "captcha_failed"
    http_status = 422
