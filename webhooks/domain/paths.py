"""Paths into a delivery, as rules write them: `event`, `body.repository.full_name`, `body.commits.0.id`."""

import re
from typing import Final

from core.templates import MISSING, PATH, Missing, find

ROOTS: Final = ("source", "event", "delivery", "delivery_id", "sandbox", "occurred_at", "received_at", "body")
_PATH: Final = re.compile(PATH)
__all__ = ["MISSING", "ROOTS", "Missing", "find", "reason"]


def reason(path: str) -> str | None:
    if not _PATH.fullmatch(path):
        return f"{path[:80]!r} is no path: write names with dots between, like body.repository.full_name"
    root, _, rest = path.partition(".")
    if root not in ROOTS:
        return f"the path {path[:80]!r} begins with none of {', '.join(ROOTS)}"
    if rest and root != "body":
        return f"the path {path[:80]!r} goes on after {root}, which has no parts"
    return None
