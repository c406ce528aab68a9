"""The app."""

from examples import config


class ImageGameConfig(config.ExampleConfig):
    """A game with pictures painted by jobs."""

    name = "examples.imagegame"
    label = "imagegame"
    url_prefix = "game/"
    navigation = ("imagegame:lobby", "Game")
    card = "imagegame/parts/try.html"
    tables = (("imagegame.Game", "stadia_controller"), ("imagegame.Submission", "image"))
