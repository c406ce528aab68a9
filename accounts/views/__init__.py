"""Pages of people: in and out, one's account, groups."""

from accounts.views.logins import admin_log_in

__all__ = ["admin_log_in"]
