"""The app."""

from django.apps import AppConfig


class ChatConfig(AppConfig):
    """Group chat with an assistant whose answers are jobs."""

    name = "examples.chat"
    label = "chat"
    verbose_name = "Chat"
