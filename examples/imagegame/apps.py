"""The app."""

from django.apps import AppConfig


class ImageGameConfig(AppConfig):
    """A game with pictures painted by jobs."""

    name = "examples.imagegame"
    label = "imagegame"
