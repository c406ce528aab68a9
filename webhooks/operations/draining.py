"""The queue of sandbox telemetry: stored as it comes, processed in batches every half a minute."""

import time
from typing import Final

from scheduling import operations as scheduling
from webhooks.operations import processing
from webhooks.queries import inbox

# One transaction each: large enough that its commit is shared by many, small enough to be run again when it collides.
BATCH: Final = 50
_READ_AT_ONCE: Final = 1000
# Less than the cron's half minute, so that a firing ends before the next; what is left is the next one's.
BUDGET_S: Final = 25.0


@scheduling.action(timeout=120, idempotent=True)
def drain_sandbox_queue() -> int:
    """Process telemetry that waits, oldest first, for 25 seconds at most; how many deliveries that were.

    An action, because many transactions follow one another; each batch is a mutation.
    """
    until = time.monotonic() + BUDGET_S
    done = 0
    while waiting := inbox.waiting_telemetry(_READ_AT_ONCE):
        before = done
        for start in range(0, len(waiting), BATCH):
            if time.monotonic() >= until:
                return done
            done += processing.process_batch(deliveries=waiting[start : start + BATCH])
        if done == before:  # somebody else has all of them
            break
    return done
