"""How much each source may send from one address: more than adapters do in a burst, less than would drown the others.

A sender that gets 429 comes again, except for GitHub, which never does: its limit is the higher.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from django.conf import settings

from ratelimits.operations import TokenBucket, declare
from webhooks.domain.names import Source

_PER_MINUTE: float = settings.WEBHOOKS["PER_MINUTE"]
_TIMES: Final[Mapping[Source, int]] = {Source.GITHUB: 5, Source.SANDBOX_TELEMETRY: 5, Source.SANDBOX_HOOKS: 2}


def _declared(source: Source) -> str:
    rate = _PER_MINUTE * _TIMES.get(source, 1)
    return declare(
        f"webhooks/{source.replace('_', '-')}", TokenBucket(rate, timedelta(minutes=1), capacity=rate)
    )


BY_SOURCE: Final[Mapping[Source, str]] = {source: _declared(source) for source in Source}
