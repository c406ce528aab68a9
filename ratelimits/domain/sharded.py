"""The algebra of a limit whose tokens lie in several rows ("shards"): it grants what the whole of it could.

Note [Debt is level]. As long as any shard is in debt, all shards hold the same and refill in step. So no
request finds tokens in one shard while another still owes them: nobody overtakes a reservation, and the
moment at which the debt is paid is that of an undivided limit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ratelimits.domain.algebra import State, possible, refilled, wait_ms
from ratelimits.domain.configs import Config, FixedWindow, one_shard


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """As Decision, for a whole limit: what to store for each shard, or of a denial what was given."""

    ok: bool
    retry_after: float | None
    states: tuple[State | None, ...]


def evaluate_shards(
    config: Config, states: Sequence[State | None], *, now: int, count: float = 1.0, reserve: bool = False,
    offset: int = 0,
) -> Spread:  # fmt: skip
    """Whether the limit as a whole grants `count`, and what each shard holds then.

    `states` has `config.shards` entries; None is a shard that was never used, and counts as full. Tokens are taken from
    the fullest shards first; only a reservation goes into debt, and then levels all of them. Otherwise as `evaluate`.
    """
    count = possible(config, count=count, reserve=reserve)
    share = one_shard(config)
    full = [refilled(share, state, now=now, offset=offset) for state in states]
    remaining = math.fsum(state.value for state in full) - count
    if remaining >= -_slack(config):
        return Spread(ok=True, retry_after=None, states=_taken(full, count))
    if reserve and remaining >= config.floor:
        level = State(remaining / len(full), max(state.ts for state in full))
        wait = wait_ms(share, level, now=now)
        return Spread(ok=True, retry_after=wait, states=(level,) * len(full))
    wait = _until(config, full, count=count, now=now)
    return Spread(ok=False, retry_after=wait, states=tuple(states))


def value_of_shards(config: Config, states: Sequence[State | None], *, now: int) -> float:
    """How many tokens the whole limit holds at `now` (ms); below 0 is debt."""
    share = one_shard(config)
    return math.fsum(refilled(share, state, now=now).value for state in states)


def _slack(config: Config) -> float:
    """Seven sevenths are not always one: what a sum of shares may lack of the whole, or it would never be granted."""
    return config.most * 1e-12 if config.shards > 1 else 0.0


def _taken(full: Sequence[State], count: float) -> tuple[State, ...]:
    states = list(full)
    for shard in sorted(range(len(full)), key=lambda shard: (-full[shard].value, shard)):
        part = min(count, max(full[shard].value, 0.0))
        states[shard] = State(full[shard].value - part, full[shard].ts)
        count -= part
    return tuple(states)


def _until(config: Config, full: Sequence[State], *, count: float, now: int) -> float:
    """How long after `now` the shards together hold `count`, if nobody else takes anything.

    Shards that are full stop refilling, so the sum rises along a line that bends each time one fills up. The
    bent line lies below each of the straight ones through its pieces: the latest of their answers is its own.
    """
    if len(full) == 1:
        return wait_ms(config, State(full[0].value - count, full[0].ts), now=now)
    share = one_shard(config)
    values = sorted((state.value for state in full), reverse=True)
    periods = max(
        (count - filled * share.most - math.fsum(values[filled:])) / (len(values) - filled) / share.rate
        for filled in range(len(values))
    )
    if isinstance(share, FixedWindow):
        enough = count - _slack(config)
        return _boundary(share, full, enough=enough, windows=math.ceil(periods - 1e-9)) - now
    return max(state.ts for state in full) - now + periods * share.period_ms


def _boundary(share: FixedWindow, full: Sequence[State], *, enough: float, windows: int) -> float:
    """The moment of the edge that brings enough. Shards have edges of their own; the last one needed is the nth."""
    held = [min(state.value + share.rate * (windows - 1), share.most) for state in full]
    total = math.fsum(held)
    by_boundary = sorted(zip(full, held, strict=True), key=lambda pair: pair[0].ts)
    for state, before in by_boundary:
        total += min(before + share.rate, share.most) - before
        if total >= enough:
            return state.ts + windows * share.period_ms
    return by_boundary[-1][0].ts + windows * share.period_ms  # what rounding hides has come by the last
