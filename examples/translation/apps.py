"""The app."""

from examples import config


class TranslationConfig(config.ExampleConfig):
    """A document in three languages, as a flow."""

    name = "examples.translation"
    label = "translation"
    url_prefix = "translation/"
    card = "translation/try.html"
    handlers = ("document=examples.translation.handlers:document",)
