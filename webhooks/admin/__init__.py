"""The administration of the inbox, by what it shows."""

from webhooks.admin import inbox, things

__all__ = ["inbox", "things"]
