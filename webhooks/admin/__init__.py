from webhooks.admin import inbox, resources  # noqa: F401 (each registers its pages)
