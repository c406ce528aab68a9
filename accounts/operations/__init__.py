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
