"""The algebra for a limit that lies in one row."""

from dataclasses import dataclass, replace
from typing import Any

from ratelimits import domain
from ratelimits.domain import Config, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """As `domain.Decision`, of the one shard."""

    ok: bool
    retry_after: float | None
    state: State | None


def evaluate(config: Config, state: State | None, **more: Any) -> Decision:
    decision = domain.evaluate(replace(config, shards=1), [state], **more)
    return Decision(ok=decision.ok, retry_after=decision.retry_after, state=decision.states[0])
