"""What the administration's pages of all apps are made of: bounded however large a table is, and asking first."""

from core.administration.cells import folded, link, once, preformatted, shown
from core.administration.confirmation import carry_out, is_confirmed, question
from core.administration.filters import by_day, by_flag, known, recent
from core.administration.tables import (
    COUNTED,
    BoundedChangeList,
    BoundedList,
    Counted,
    Part,
    ReadOnly,
    Untouched,
    registered,
)

__all__ = [
    "COUNTED", "BoundedChangeList", "BoundedList", "Counted", "Part", "ReadOnly", "Untouched", "by_day", "by_flag",
    "carry_out", "folded", "is_confirmed", "known", "link", "once", "preformatted", "question", "recent", "registered",
    "shown",
]  # fmt: skip
