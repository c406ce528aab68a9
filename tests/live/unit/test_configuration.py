"""Which channel layer is configured, and how many sockets a process takes."""

from channels.layers import ChannelLayerManager
from pytest_django import Settings

from live import configuration
from live.layer import NotifyChannelLayer
from postgres import descriptors


def test_is_postgresql_unless_there_is_a_redis(settings: Settings) -> None:
    settings.CHANNEL_LAYERS = configuration.channel_layers(None)
    assert isinstance(ChannelLayerManager()["default"], NotifyChannelLayer)


def test_is_redis_when_its_url_is_given(settings: Settings) -> None:
    settings.CHANNEL_LAYERS = configuration.channel_layers("redis://127.0.0.1:6379/3")
    assert type(ChannelLayerManager()["default"]).__name__ == "RedisChannelLayer"


def test_is_postgresql_for_an_empty_url() -> None:
    assert configuration.channel_layers("") == configuration.channel_layers(None)


def test_a_redis_where_nothing_happens_is_no_redis_that_is_gone(settings: Settings) -> None:
    """redis-py gives up a read after five seconds by itself, which is just how long a read of the layer may wait."""
    settings.CHANNEL_LAYERS = configuration.channel_layers("redis://127.0.0.1:6379/3")
    layer = ChannelLayerManager()["default"]
    patience_s = layer.create_pool(0).connection_kwargs["socket_timeout"]
    assert layer.brpop_timeout < patience_s < 60


def test_sockets_leave_half_of_the_files_to_others() -> None:
    assert configuration.sockets() == min(5000, descriptors.most() // 2)


def test_the_environment_says_how_many_and_how_fast(settings: Settings) -> None:
    names = {"SOCKETS", "SOCKETS_PER_ADDRESS", "SOCKETS_PER_PERSON", "STREAMS_PER_PERSON", "BURST", "PER_SECOND"}
    assert settings.LIVE.keys() == names
