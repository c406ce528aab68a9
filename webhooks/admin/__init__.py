from webhooks.admin import inbox, resources, rules  # noqa: F401 (each registers its pages)
