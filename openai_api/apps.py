"""The app `openai_api`."""

from django.apps import AppConfig


class OpenAIApiConfig(AppConfig):
    """OpenAI's API in front of the farm."""

    name = "openai_api"
    verbose_name = "OpenAI's API"
