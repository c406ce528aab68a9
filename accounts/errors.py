"""Refusals of the app: each class states its code, its HTTP status and, as its docstring, its sentence."""

from core.refusal import Refusal


class AccountsError(Refusal):
    """The request cannot be carried out."""


class Unauthorized(AccountsError):
    """This API token is unknown, was revoked, or belongs to somebody who may no longer log in."""

    code = "unauthorized"
    http_status = 401


class CsrfFailed(AccountsError):
    """A browser's session needs the CSRF token with it: reload the page, or use an API token instead."""

    code = "csrf_failed"
    http_status = 403


class LinkSpent(AccountsError):
    """This link was already used, has expired, or never existed."""

    code = "link_spent"
    http_status = 410


class InactiveUser(AccountsError):
    """{username} may not log in: the account is disabled."""

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


class TooManyTokens(AccountsError):
    """You have {limit} API tokens, which is the most: revoke one that is not needed."""

    code = "too_many_tokens"
    http_status = 409


class TooManyGroups(AccountsError):
    """You made {limit} groups that are still there, which is the most: leave one that is not needed."""

    code = "too_many_groups"
    http_status = 409


class InvalidGroupName(AccountsError):
    """A group needs a name of 1 to {limit} characters that can be printed."""

    code = "invalid_group_name"
    http_status = 422


class GroupNameTaken(AccountsError):
    """There is already a group called {name}: choose another name."""

    code = "group_name_taken"
    http_status = 409


class InvitationUnknown(AccountsError):
    """This invitation is not valid: it was replaced or withdrawn, or part of it is missing. Ask for a new link."""

    code = "invitation_unknown"
    http_status = 404


class GroupFull(AccountsError):
    """This group is full: it has {limit} members, the maximum."""

    code = "group_full"
    http_status = 409


class NotAMember(AccountsError):
    """Only members of this group can do that."""

    code = "not_a_member"
    http_status = 403


class NotTheOwner(AccountsError):
    """Only the owner of this group can do that: the member who has been in it longest."""

    code = "not_the_owner"
    http_status = 403


class SignUpClosed(AccountsError):
    """Sign-up is closed: ask whoever runs this farm for an account."""

    code = "sign_up_closed"
    http_status = 403


class GuestsClosed(AccountsError):
    """This farm does not admit guests: log in or sign up."""

    code = "guests_closed"
    http_status = 403


class InvalidUsername(AccountsError):
    """A username has 1 to {limit} characters: letters, digits and @ . + - _ only."""

    code = "invalid_username"
    http_status = 422


class NoScope(AccountsError):
    """Choose at least one scope for the token: {scopes}."""

    code = "no_scope"
    http_status = 422


class InvalidDays(AccountsError):
    """A token is valid for more than 0 and at most {most} days, or until it is revoked."""

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
    """Guests cannot do that: sign up, and you keep everything you have here."""

    code = "members_only"
    http_status = 403


class CaptchaFailed(AccountsError):
    """Those were not the letters, or the picture has expired. Here is another one."""

    code = "captcha_failed"
    http_status = 422
