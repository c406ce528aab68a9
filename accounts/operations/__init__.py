"""What people do with their accounts and groups. Synchronous: from an event loop use `postgres.connections.run`."""

from accounts.handlers import audit, handed_over, observe_audit
from accounts.operations.groups import (
    Invited,
    create_group,
    invitation,
    invite,
    invited,
    join,
    leave,
    owner,
    remove_member,
    withdraw_invitation,
)
from accounts.operations.guests import end_guest, end_sessions, enter_as_guest, is_guest, new_captcha, retire_guests
from accounts.operations.logins import (
    DAY_MIN,
    SEALER,
    begin_log_in,
    begin_sign_up,
    close_other_ways_in,
    end_log_in,
    ensure_administrator,
    follow_claims,
    forget_second_factors,
    is_usable,
    must_have_second_factor,
    one_time_link,
    person_of_proxy,
    redeem,
    second_factors,
    sign_up,
    unreadable_second_factors,
)
from accounts.operations.tokens import create_token, end_tokens, recognize, revoke_token, token
from accounts.queries import audit_line, groups_of, is_member, limit_key, members

__all__ = [
    "DAY_MIN", "Invited", "SEALER", "audit", "audit_line", "begin_log_in", "begin_sign_up",
    "close_other_ways_in", "create_group", "create_token", "end_guest", "end_log_in", "end_sessions",
    "end_tokens", "ensure_administrator", "enter_as_guest", "follow_claims", "forget_second_factors",
    "groups_of", "handed_over",
    "invitation", "invite", "invited", "is_guest", "is_member", "is_usable", "join", "leave", "limit_key",
    "members", "must_have_second_factor", "new_captcha", "observe_audit", "one_time_link", "owner",
    "person_of_proxy", "recognize", "redeem", "remove_member", "retire_guests", "revoke_token", "second_factors",
    "sign_up", "token", "unreadable_second_factors", "withdraw_invitation",
]  # fmt: skip
