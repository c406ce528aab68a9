"""Paths into a delivery, as rules write them: `event`, `body.repository.full_name`, `body.commits.0.id`.

A step is a name within an object, or a number within a list; it never reaches an attribute or a method.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

ROOTS: Final = ("source", "event", "delivery", "delivery_id", "sandbox", "occurred_at", "received_at", "body")
STEP: Final = r"[^\s.{}?|]+"
PATH: Final = rf"{STEP}(?:\.{STEP})*"
_PATH: Final = re.compile(PATH)


class Missing:
    """What a path leads to where there is nothing; null is a value."""

    def __repr__(self) -> str:
        return "nothing"


MISSING: Final = Missing()


def reason(path: str) -> str | None:
    """Why this is no path; None if it is one."""
    if not _PATH.fullmatch(path):
        return f"{path[:80]!r} is no path: write names with dots between, like body.repository.full_name"
    root, _, rest = path.partition(".")
    if root not in ROOTS:
        return f"the path {path[:80]!r} begins with none of {', '.join(ROOTS)}"
    if rest and root != "body":
        return f"the path {path[:80]!r} goes on after {root}, which has no parts"
    return None


def find(path: str, values: Mapping[str, Any]) -> Any:
    value: Any = values
    for step in path.split("."):
        value = _step(value, step)
        if value is MISSING:
            return MISSING
    return value


def _step(value: Any, step: str) -> Any:
    if isinstance(value, Mapping):
        return value.get(step, MISSING)
    if isinstance(value, list) and step.isascii() and step.isdigit() and len(step) < 10:
        at = int(step)
        return value[at] if at < len(value) else MISSING
    return MISSING
