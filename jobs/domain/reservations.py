"""When jobs may start that reserved tokens of a limit together: each at its own moment, in their order."""

import math
import random
from collections.abc import Sequence

from ratelimits.domain import Config, FixedWindow

JITTER_SHARE = 0.1  # of the wait, so that those who waited do not all start in the same millisecond
JITTER_MOST_S = 5.0


def waits_s(config: Config, counts: Sequence[float], *, remaining: float, last_s: float | None) -> list[float | None]:
    """How many seconds each of these has to wait; None: not at all.

    They took `counts` tokens in one decision of `config`, which left `remaining` (below 0 is debt) and gave `last_s`,
    the wait of the last one of them. What stood in the account after each earlier one follows from that: so many
    decisions, one after the other, would have said the same, and one at a time would be as many round trips.
    """
    if last_s is None:
        return [None] * len(counts)
    waits: list[float | None] = []
    value = remaining + math.fsum(counts)
    for count in counts:
        value -= count
        # Whole batches end at what the decision left, whatever the sums have lost on their way there.
        waits.append(None if value >= 0 else max(0.0, last_s - _between_s(config, remaining, value)))
    return [*waits[:-1], last_s]


def with_jitter(wait_s: float, *, rng: random.Random) -> float:
    """The wait, and up to a tenth of it (5 s at most) more."""
    return wait_s + rng.uniform(0.0, min(wait_s * JITTER_SHARE, JITTER_MOST_S))


def _between_s(config: Config, low: float, high: float) -> float:
    """How long after a debt of `high` that of `low` is paid; both are below 0."""
    period_s = config.period.total_seconds()
    if isinstance(config, FixedWindow):
        return (math.ceil(-low / config.rate) - math.ceil(-high / config.rate)) * period_s
    return (high - low) * period_s / config.rate
