"""The app `outbox`."""

from django.apps import AppConfig


class OutboxConfig(AppConfig):
    """Events for others, and where they go."""

    name = "outbox"
    verbose_name = "Outbox"
