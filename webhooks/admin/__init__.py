"""The administration of the inbox, by what it shows."""

from webhooks.admin import inbox, resources, rules

__all__ = ["inbox", "rules", "resources"]
