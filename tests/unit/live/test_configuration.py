"""Which channel layer is configured."""

from channels.layers import ChannelLayerManager
from pytest_django import Settings

from live import configuration
from live.layer import NotifyChannelLayer


def test_is_postgresql_unless_there_is_a_redis(settings: Settings) -> None:
    settings.CHANNEL_LAYERS = configuration.channel_layers(None)
    assert isinstance(ChannelLayerManager()["default"], NotifyChannelLayer)


def test_is_redis_when_its_url_is_given(settings: Settings) -> None:
    settings.CHANNEL_LAYERS = configuration.channel_layers("redis://127.0.0.1:6379/3")
    assert type(ChannelLayerManager()["default"]).__name__ == "RedisChannelLayer"


def test_is_postgresql_for_an_empty_url() -> None:
    assert configuration.channel_layers("") == configuration.channel_layers(None)
