"""The settings that live queries need. Imports nothing of Django's, so that settings may call it."""

import resource
from typing import Any, Final

from postgres import descriptors

# A read of the layer waits for five seconds (channels_redis), and redis-py gives one up after five by itself: a Redis
# where nothing happens would look like one that is gone, and every page would be read anew each time.
_REDIS_ANSWERS_WITHIN_S: Final = 15.0


_MOST_SOCKETS: Final = 5000
FILES: Final = 2 * _MOST_SOCKETS  # that a process is to have for so many; others take as many


def sockets() -> int:
    """Return how many sockets of pages one process takes by default: at most half of its files (`ulimit -n`), since a
    process that ran out of them would answer nobody."""
    files = descriptors.most()
    return _MOST_SOCKETS if files == resource.RLIM_INFINITY else max(1, min(_MOST_SOCKETS, files // 2))


def channel_layers(redis_url: str | None) -> dict[str, dict[str, Any]]:
    """Return CHANNEL_LAYERS: PostgreSQL's NOTIFY, or Redis when its URL (redis://host:6379/0) is given. Messages carry
    topics and no state, so capacity only has to hold a burst between two iterations of the hub's loop."""
    if not redis_url:
        return {"default": {"BACKEND": "live.layer.NotifyChannelLayer"}}
    redis = {"address": redis_url, "socket_timeout": _REDIS_ANSWERS_WITHIN_S}
    options = {"hosts": [redis], "capacity": 2000, "prefix": "jobfarm"}
    return {"default": {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": options}}
