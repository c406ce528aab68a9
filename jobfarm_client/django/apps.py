"""The one app that a site adds: a table of the tasks that it sent to farms."""

from django.apps import AppConfig


class FarmClientConfig(AppConfig):
    """Tables are named jobfarm_client_...: a site may well have a `django` of its own somewhere."""

    name = "jobfarm_client.django"
    label = "jobfarm_client"
    verbose_name = "Job farm"
    default_auto_field = "django.db.models.BigAutoField"
