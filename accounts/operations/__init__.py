"""What people do with their accounts and groups. Synchronous: from an event loop use `postgres.connections.run`."""

from accounts.operations.groups import (
    Invited,
    create_group,
    groups_of,
    invitation,
    invite,
    invited,
    is_member,
    join,
    leave,
    members,
    owner,
    remove_member,
    withdraw_invitation,
)
from accounts.operations.guests import end_guest, enter_as_guest, is_guest, limit_key, new_captcha
from accounts.operations.logins import (
    DAY_MIN,
    begin_log_in,
    end_log_in,
    ensure_administrator,
    is_usable,
    one_time_link,
    redeem,
)
from accounts.operations.retention import retire_guests
from accounts.operations.signup import check_username, sign_up
from accounts.operations.tokens import authenticate, create_token, end_tokens, revoke_token, token

__all__ = [
    "DAY_MIN", "Invited", "authenticate", "begin_log_in", "check_username", "create_group", "create_token", "end_guest",
    "end_log_in", "end_tokens", "ensure_administrator", "enter_as_guest",
    "groups_of", "invitation", "invite", "invited", "is_guest", "is_member", "is_usable", "join", "owner", "leave",
    "limit_key", "members", "new_captcha", "one_time_link", "redeem", "remove_member", "retire_guests", "revoke_token",
    "sign_up", "token", "withdraw_invitation",
]  # fmt: skip
