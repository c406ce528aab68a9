"""Where a function stands in the queue: its queue's name and its priority."""

from typing import Any

from scheduling.errors import BadQueue

LONGEST_QUEUE = 100
MOST_PRIORITY = 100
DEFAULT_QUEUE = "default"
RESERVED = ("queue", "priority")  # what `run_after` and `run_at` take besides a function's own arguments


def queue(given: Any) -> str:
    """`given`, if it is the name of a queue. Raises BadQueue."""
    if not isinstance(given, str) or not (0 < len(given) <= LONGEST_QUEUE) or not given.isprintable():
        raise BadQueue(why=f"a queue has a printable name of 1 to {LONGEST_QUEUE} characters, not {given!r}")
    return given


def priority(given: Any) -> int:
    """`given`, if it is a priority. Raises BadQueue."""
    if isinstance(given, bool) or not isinstance(given, int) or abs(given) > MOST_PRIORITY:
        raise BadQueue(
            why=f"a priority is a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}, not {given!r}"
        )
    return given
