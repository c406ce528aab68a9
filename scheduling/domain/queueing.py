"""Where a function stands in the queue: its queue's name and its priority."""

from typing import Any

from scheduling.errors import BadQueue

LONGEST_QUEUE = 100
MOST_PRIORITY = 100
DEFAULT_QUEUE = "default"
RESERVED = ("queue", "priority")  # what `run_after` and `run_at` take besides a function's own arguments


def queue(value: Any) -> str:
    """`value`, if it is the name of a queue. Raises BadQueue."""
    if not isinstance(value, str) or not (0 < len(value) <= LONGEST_QUEUE) or not value.isprintable():
        raise BadQueue(why=f"a queue has a printable name of 1 to {LONGEST_QUEUE} characters, not {value!r}")
    return value


def priority(value: Any) -> int:
    """`value`, if it is a priority. Raises BadQueue."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MOST_PRIORITY:
        raise BadQueue(
            why=f"a priority is a whole number from -{MOST_PRIORITY} to {MOST_PRIORITY}, not {value!r}"
        )
    return value
