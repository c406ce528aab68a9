"""What an example declares about itself. The composition root reads it, and names no example but in the settings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from django.apps import AppConfig, apps

if TYPE_CHECKING:
    from django.contrib.auth.models import User


class ExampleConfig(AppConfig):
    """An example; `apps.py` of each has its own."""

    is_of_the_farm = True
    """Its functions and crons are shown as the farm's own, not as those of an app that somebody wrote."""
    url_prefix: str
    """What the addresses of its pages begin with, with a slash at the end. (`path` is Django's: the folder.)"""
    navigation: tuple[str, str] | None = None
    """Its link in the navigation, if it has pages: the name of the address, and the label."""
    card: str
    """The template of its card on the overview."""
    handlers: Sequence[str] = ()
    """What the worker that comes along does for it, as the worker's option: `kind=module:function`."""
    tables: Sequence[tuple[str, str]] = ()
    """Its tables in the administration's sidebar, each with its icon."""
    operator_permissions: Sequence[str] = ()
    """What an operator may do with them beyond looking."""

    def set_up(self, administrator: User) -> None:
        """Make what it begins with, when a new farm starts for the first time."""


def installed() -> list[ExampleConfig]:
    """The examples of this farm, in the order of the settings."""
    return [config for config in apps.get_app_configs() if isinstance(config, ExampleConfig)]
