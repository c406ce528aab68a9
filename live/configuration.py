"""The settings that live queries need. Imports nothing of Django's, so that settings may call it."""

from typing import Any, Final

# A read of the layer waits for five seconds (channels_redis), and redis-py gives one up after five by itself: a Redis
# where nothing happens would look like one that is gone, and every page would be read anew each time.
_REDIS_ANSWERS_WITHIN_S: Final = 15.0


def channel_layers(redis_url: str | None) -> dict[str, dict[str, Any]]:
    """Return CHANNEL_LAYERS: PostgreSQL's NOTIFY, or Redis when its URL (redis://host:6379/0) is given.

    Messages carry topics and no state, so capacity only has to hold a burst between two turns of the hub's
    loop.
    """
    if not redis_url:
        return {"default": {"BACKEND": "live.layer.NotifyChannelLayer"}}
    redis = {"address": redis_url, "socket_timeout": _REDIS_ANSWERS_WITHIN_S}
    options = {"hosts": [redis], "capacity": 2000, "prefix": "jobfarm"}
    return {"default": {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": options}}
