"""How much work a worker gets at a time, and when a cluster counts as frozen."""

from dataclasses import dataclass
from math import ceil

# Long enough that no worker waits for the next look into the queue (1 to 5 ms), short enough that what is more urgent
# waits no longer than this behind what was dispatched before it.
AHEAD_S = 0.05
MOST = 32
FIRST = 4


@dataclass(slots=True)
class Pace:
    """How many functions (`size`) a worker does within AHEAD_S, by what the last one did."""

    size: int = FIRST

    def measure(self, *, done: int, seconds: float) -> None:
        if done and seconds > 0:
            self.size = max(1, min(ceil(done / seconds * AHEAD_S), MOST))


SILENT_S = 8.0  # a dispatcher shows that it lives once a second
OVERDUE_S = 3.0  # for so long the same picture must hold; one slow moment of the machine is no freeze
STARTING_S = 60.0  # Python, Django and the first connection, on a busy machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """What a dispatcher shows of itself at one moment.

    `silent_s`: since its last sign of life, None if there was none yet. `overdue_s`: for how long it has known of a
    function that it should have dispatched seconds ago, while a worker was free and none was dispatched. Two long
    actions on two workers hold everything up, and nothing is wrong.
    """

    silent_s: float | None
    overdue_s: float = 0.0


def why_frozen(vitals: Vitals, *, age_s: float) -> str | None:
    """Why a cluster that has been watched for so long is frozen, as the end of a sentence, or None."""
    if vitals.silent_s is None:
        return "it never began to work" if age_s > STARTING_S else None
    if min(vitals.silent_s, age_s) > SILENT_S:
        return f"it has shown no sign of life for {vitals.silent_s:.0f} s"
    if min(vitals.overdue_s, age_s) > OVERDUE_S:
        return "a dispatch is overdue while a worker is free"
    return None
