from webhooks.admin import inbox, resources, rules

__all__ = ["inbox", "rules", "resources"]
