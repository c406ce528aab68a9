"""The administration of the inbox, by what it shows."""

from webhooks.admin import inbox, rules, things

__all__ = ["inbox", "rules", "things"]
