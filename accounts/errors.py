"""Refusals of the app. A class's docstring is its message, `code` is the machine's word for it."""

from typing import Any, ClassVar


class AccountsError(Exception):
    """The request cannot be carried out."""

    code: ClassVar[str] = "refused"

    def __init__(self, **numbers: Any) -> None:
        self.numbers = numbers
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """The sentence for people: the class's docstring, with this refusal's numbers filled in."""
        return (type(self).__doc__ or "").strip().format(**self.numbers)


class Unauthorized(AccountsError):
    """This API token is not known, was revoked, or belongs to somebody who may no longer log in."""

    code = "unauthorized"


class CsrfFailed(AccountsError):
    """A browser's session needs the CSRF token with it: reload the page, or use an API token instead."""

    code = "csrf_failed"


class LinkSpent(AccountsError):
    """This link was used already, has run out, or never was one."""

    code = "link_spent"


class InactiveUser(AccountsError):
    """{username} may not log in: the account is switched off."""

    code = "inactive_user"


class InvalidName(AccountsError):
    """A token needs a name of 1 to {limit} characters that can be printed."""

    code = "invalid_name"


class NotFound(AccountsError):
    """There is no such API token."""

    code = "not_found"
