"""The settings that live queries need. Imports nothing of Django's, so that settings may call it."""

import os
import resource
from collections.abc import Mapping
from typing import Any, Final

from postgres import descriptors
from postgres.configuration import number

# A read of the layer waits for five seconds (channels_redis), and redis-py gives one up after five by itself: a Redis
# where nothing happens would look like one that is gone, and every page would be read anew each time.
_REDIS_ANSWERS_WITHIN_S: Final = 15.0


_MOST_SOCKETS: Final = 5000
FILES: Final = 2 * _MOST_SOCKETS  # that a process is to have for so many; others take as many
_OF_ADDRESS: Final = 500  # an office behind one address: 250 people with two tabs each
_STREAMS: Final = 1000  # of one person: a site that relays the streams of its own users has one token
_OF_PERSON: Final = 200  # tabs, on however many machines
_BURST: Final = 300  # the most that a page may watch is 200, and when it comes back it asks for all of them
_PER_SECOND: Final = 10


def limits(environ: Mapping[str, str] = os.environ) -> dict[str, int]:
    """Return LIVE, the limits of the pages' sockets. Raises InvalidSetting. A process that ran out of files would
    answer nobody, so by default sockets take at most half of them (`ulimit -n`)."""
    files = descriptors.most()
    most = _MOST_SOCKETS if files == resource.RLIM_INFINITY else max(1, min(_MOST_SOCKETS, files // 2))
    streams = max(1, min(_STREAMS, most // 2))
    return {
        "SOCKETS": number("JOBFARM_PAGE_SOCKETS", most, environ=environ),
        "SOCKETS_PER_PERSON": number("JOBFARM_PAGE_SOCKETS_PER_PERSON", _OF_PERSON, environ=environ),
        "STREAMS_PER_PERSON": number("JOBFARM_EVENT_STREAMS_PER_PERSON", streams, environ=environ),
        "SOCKETS_PER_ADDRESS": number("JOBFARM_PAGE_SOCKETS_PER_ADDRESS", _OF_ADDRESS, environ=environ),
        "BURST": number("JOBFARM_PAGE_BURST", _BURST, environ=environ),
        "PER_SECOND": number("JOBFARM_PAGE_PER_SECOND", _PER_SECOND, environ=environ),
    }


def channel_layers(redis_url: str | None) -> dict[str, dict[str, Any]]:
    """Return CHANNEL_LAYERS: PostgreSQL's NOTIFY, or Redis when its URL (redis://host:6379/0) is given. Messages carry
    topics and no state, so capacity only has to hold a burst between two iterations of the hub's loop."""
    if not redis_url:
        return {"default": {"BACKEND": "live.layer.NotifyChannelLayer"}}
    redis = {"address": redis_url, "socket_timeout": _REDIS_ANSWERS_WITHIN_S}
    options = {"hosts": [redis], "capacity": 2000, "prefix": "jobfarm"}
    return {"default": {"BACKEND": "channels_redis.core.RedisChannelLayer", "CONFIG": options}}
