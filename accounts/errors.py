from core.refusal import Refusal


class AccountsError(Refusal):
    """The request cannot be carried out."""


class Unauthorized(AccountsError, code="unauthorized", http_status=401):
    """This API token is unknown, was revoked, or belongs to somebody who may no longer log in."""


class CsrfFailed(AccountsError, code="csrf_failed", http_status=403):
    """A browser's session needs the CSRF token with it: reload the page, or use an API token instead."""


class LinkSpent(AccountsError, code="link_spent", http_status=410):
    """This link was used, has expired, or lacks a part. Whoever runs this farm makes another: login_link USER."""


class InactiveUser(AccountsError, code="inactive_user", http_status=403):
    """{username} may not log in: the account is disabled."""


class InvalidName(AccountsError, code="invalid_name", http_status=422):
    """A token needs a name of 1 to {limit} characters that can be printed."""


class NotFound(AccountsError, code="not_found", http_status=404):
    """There is no such API token."""


class TooManyTokens(AccountsError, code="too_many_tokens", http_status=409):
    """You have {limit} API tokens, which is the most: revoke one that is not needed."""


class TooManyGroups(AccountsError, code="too_many_groups", http_status=409):
    """You made {limit} groups that are still there, which is the most: leave one that is not needed."""


class InvalidGroupName(AccountsError, code="invalid_group_name", http_status=422):
    """A group needs a name of 1 to {limit} characters that can be printed."""


class GroupNameTaken(AccountsError, code="group_name_taken", http_status=409):
    """There is already a group called {name}: choose another name."""


class InvitationUnknown(AccountsError, code="invitation_unknown", http_status=404):
    """This invitation is not valid: it was replaced or withdrawn, or part of it is missing. Ask for a new link."""


class GroupFull(AccountsError, code="group_full", http_status=409):
    """This group is full: it has {limit} members, the maximum."""


class NotAMember(AccountsError, code="not_a_member", http_status=403):
    """Only members of this group can do that."""


class NotTheOwner(AccountsError, code="not_the_owner", http_status=403):
    """Only the owner of this group can do that: the member who has been in it longest."""


class SignUpClosed(AccountsError, code="sign_up_closed", http_status=403):
    """Sign-up is closed: ask whoever runs this farm for an account."""


class GuestsClosed(AccountsError, code="guests_closed", http_status=403):
    """This farm does not admit guests: log in or sign up."""


class NoScope(AccountsError, code="no_scope", http_status=422):
    """Choose at least one scope for the token: {scopes}."""


class InvalidDays(AccountsError, code="invalid_days", http_status=422):
    """A token is valid for more than 0 and at most {most} days, or until it is revoked."""


class InsufficientScope(AccountsError, code="insufficient_scope", http_status=403):
    """This API token may not {scope}: it was made for {scopes} alone."""


class UsernameTaken(AccountsError, code="username_taken", http_status=409):
    """The username {username} is taken: choose another."""


class MembersOnly(AccountsError, code="members_only", http_status=403):
    """Guests cannot do that: sign up, and you keep everything you have here."""


class CaptchaFailed(AccountsError, code="captcha_failed", http_status=422):
    """Those were not the letters, or the picture has expired. Here is another one."""
