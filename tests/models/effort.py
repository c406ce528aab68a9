"""How long the models are searched: the same few sequences in each run of the suite, or many new ones."""

import os

from django.db import connection
from hypothesis import HealthCheck, Phase, settings

from tests.effort import share

# Set by `make chaos`: so many sequences for each model, drawn anew each time.
_EXAMPLES = os.environ.get("JOBFARM_MODEL_EXAMPLES")


def effort(*, examples: int, steps: int) -> settings:
    """Settings for a state machine: `examples` sequences of up to `steps` calls, a share of them (`tests.effort`), or
    as many as the environment asks."""
    return settings(
        max_examples=int(_EXAMPLES) if _EXAMPLES else share(examples, of=4),
        stateful_step_count=steps,
        derandomize=_EXAMPLES is None,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )


def begin(*tables: str) -> None:
    """Empty these tables for the next sequence. Its commits do not wait for the disk, and the database's dice are
    loaded: the same calls lead to the same rows, or a failing sequence could not be made shorter."""
    with connection.cursor() as cursor:
        cursor.execute(f"TRUNCATE {', '.join(tables)} CASCADE")
        cursor.execute("SET synchronous_commit = off; SELECT setseed(0.5)")
