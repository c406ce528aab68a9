"""What is done to states beside asking: reset, giving back, forgetting."""

from django.contrib.auth.models import User
from django.db import transaction

import live.operations as live
from core import audit
from ratelimits import limits, queries
from ratelimits.domain import Config
from ratelimits.domain.algebra import finite
from ratelimits.models import Bucket
from ratelimits.operations import made, requests

TOPIC = made.TOPIC


def reset(name: str, *, key: str | None = None, by: User | None = None) -> bool:
    """Make this limit and key full again; whether there was anything to forget. Raises InvalidName.

    A name that no code declares is no error here: states of limits that were renamed can be cleared away.
    What a person (`by`) resets is noted in the admin's log.
    """
    return reset_stored(limits.checked(name), requests.stored_key(key), by=by)


def reset_stored(name: str, key: str, *, by: User | None = None) -> bool:
    """As `reset`, for a key as the table holds it: what pages and the admin show."""
    with transaction.atomic():
        rows = Bucket.objects.filter(name=name, key=key)
        row = rows.order_by("shard").first()  # one of them, to hang a note about all on
        if row is None:
            return False
        audit.record(by, row, "Reset.")
        rows.delete()
        live.touch(TOPIC)
    return True


def give_back(name: str, *, key: str | None = None, count: float = 1.0, config: Config | None = None) -> None:
    """Put tokens back that were taken or reserved and will not be used. No limit holds more than it can.

    Whoever reserved behind them keeps their moment. Say the count that was taken, and say it once: two calls
    give twice. Raises UnknownLimit, InvalidName, InvalidCount.
    """
    known = requests.config_of(name, config)
    queries.give_back(
        queries.Request(name=name, key=requests.stored_key(key), config=known, count=finite(count), reserve=True)
    )
