"""The app."""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples import config

if TYPE_CHECKING:
    from django.contrib.auth.models import User


class ChatConfig(config.ExampleConfig):
    """Group chat with an assistant whose answers are jobs."""

    name = "examples.chat"
    label = "chat"
    verbose_name = "Chat"
    url_prefix = "chat/"
    navigation = ("chat:rooms", "Chat")
    card = "chat/parts/try.html"
    tables = (("chat.Message", "chat"),)
    operator_permissions = ("chat.delete_message",)

    def set_up(self, administrator: User) -> None:
        """The first room, with the administrator in it."""
        from examples.chat import operations  # noqa: PLC0415 (it imports models: apps are not ready before)

        operations.open_lobby(by=administrator)
