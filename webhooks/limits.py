"""How much each source may send from one address: more than adapters do in a burst, less than would drown the others.

A sender that gets 429 comes again, except for GitHub, which never does: its limit is the higher. What no secret signed
has a limit of its own, so that it takes nothing from what one did, also where both come from one address: a proxy's,
say.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from django.conf import settings

from ratelimits.operations import TokenBucket, declare
from webhooks.domain.deliveries import Source

_PER_MINUTE: float = settings.WEBHOOKS["PER_MINUTE"]
_TIMES: Final[Mapping[Source, int]] = {Source.GITHUB: 5, Source.SANDBOX_TELEMETRY: 5, Source.SANDBOX_HOOKS: 2}


def _declared(source: Source, more: str = "") -> str:
    rate = _PER_MINUTE * _TIMES.get(source, 1)
    name = f"webhooks/{source.replace('_', '-')}{more}"
    return declare(name, TokenBucket(rate, timedelta(minutes=1), capacity=rate))


SIGNED: Final[Mapping[Source, str]] = {source: _declared(source) for source in Source}
UNSIGNED: Final[Mapping[Source, str]] = {source: _declared(source, "/unsigned") for source in Source}
