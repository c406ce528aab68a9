"""The app."""

from django.apps import AppConfig


class WebhooksConfig(AppConfig):
    """Webhooks."""

    name = "webhooks"
