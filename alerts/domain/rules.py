"""What a rule may be: the bounds of its numbers, and who can be written to. Durations in seconds."""

import math
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from alerts.domain.conditions import Condition, Unit
from alerts.errors import BadRule

MOST_RULES: Final = 500  # of a farm: each is judged every minute, and a page shows them all
LONGEST_NAME: Final = 100
LONGEST_TARGET: Final = 300
MOST_ADDRESSES: Final = 10
LONGEST_S: Final = 7 * 86400
SHORTEST_REPEAT_S: Final = 300  # `judging.GROUP`: nothing is sent more often
SHORTEST_WINDOW_S: Final = 300
LONGEST_WINDOW_S: Final = 86400  # minutes of the roll-up are kept for two days
LONGEST_MUTE_S: Final = 30 * 86400
# Django checks addresses by a longer rule; this keeps out what could add a header or a second recipient.
_ADDRESS: Final = re.compile(r"[^@\s,;<>\"()]{1,64}@[^@\s,;<>\"()]{1,190}")


class Severity(StrEnum):
    WARNING = "warning"
    CRITICAL = "critical"


def check(condition: Condition | None, values: Mapping[str, Any]) -> None:
    """Raise BadRule at the first thing that is wrong with these values of a rule for this condition."""
    if condition is None:
        raise BadRule(field="condition", reason="There is no such condition.")
    name = values["name"]
    if not (name.strip() and name.isprintable() and len(name) <= LONGEST_NAME):
        raise BadRule(field="name", reason=f"It has 1 to {LONGEST_NAME} printable characters.")
    if len(values["target"]) > LONGEST_TARGET or not values["target"].isprintable():
        raise BadRule(field="target", reason=f"It has at most {LONGEST_TARGET} printable characters.")
    _check_threshold(condition, values["threshold"])
    for field, least, most in (
        ("hold_s", 0, LONGEST_S), ("keep_firing_s", 0, LONGEST_S), ("window_s", SHORTEST_WINDOW_S, LONGEST_WINDOW_S),
    ):  # fmt: skip
        _check_seconds(field, values[field], least=least, most=most)
    if values["repeat_s"]:
        _check_seconds("repeat_s", values["repeat_s"], least=SHORTEST_REPEAT_S, most=LONGEST_S)
    addresses(values["mail_to"])


def addresses(text: str) -> list[str]:
    """The addresses in a text, with commas or white space between them, each once. Raises BadRule."""
    items = list(dict.fromkeys(text.replace(",", " ").split()))
    if len(items) > MOST_ADDRESSES:
        raise BadRule(field="mail_to", reason=f"It names more than {MOST_ADDRESSES} addresses.")
    for item in items:
        if not _ADDRESS.fullmatch(item) or not item.isprintable():
            raise BadRule(field="mail_to", reason=f"{item[:100]!r} is no address.")
    return items


def _check_threshold(condition: Condition, value: float) -> None:
    if not math.isfinite(value) or value < 0:
        raise BadRule(field="threshold", reason="It is a number of at least 0.")
    if condition.unit is Unit.PERCENT and value >= 100:
        raise BadRule(field="threshold", reason="It is below 100 percent: more than all is never reached.")


def _check_seconds(field: str, value: int, *, least: int, most: int) -> None:
    if not least <= value <= most:
        raise BadRule(field=field, reason=f"It is from {least} to {most} seconds.")
