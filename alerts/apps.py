from django.apps import AppConfig


class AlertsConfig(AppConfig):
    """Rules over what the farm knows of itself, and their messages. Conditions are loaded when they are needed."""

    name = "alerts"
    verbose_name = "Alerts"
