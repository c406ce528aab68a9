"""Which channel layer is configured, and how many sockets a process takes."""

import pytest
from channels.layers import ChannelLayerManager
from pytest_django import Settings

from live import configuration
from live.layer import NotifyChannelLayer
from postgres import descriptors
from postgres.errors import InvalidSetting


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


class TestLimits:
    def test_leave_half_of_the_files_to_others(self) -> None:
        assert configuration.limits({})["SOCKETS"] == min(5000, descriptors.most() // 2)

    def test_are_what_the_environment_says(self) -> None:
        given = {"JOBFARM_PAGE_SOCKETS_PER_ADDRESS": "7", "JOBFARM_PAGE_PER_SECOND": "3"}
        found = configuration.limits(given)
        assert (found["SOCKETS_PER_ADDRESS"], found["PER_SECOND"], found["BURST"]) == (7, 3, 300)

    def test_are_at_least_one(self) -> None:
        with pytest.raises(InvalidSetting):
            configuration.limits({"JOBFARM_PAGE_BURST": "0"})
