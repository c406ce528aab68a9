"""What the administration's pages of all apps are made of: live, bounded however large a table is, and asking first."""

from live.administration.cells import LiveMedia, folded, link, live_cell, once, preformatted
from live.administration.confirmation import carry_out, is_confirmed, person, question
from live.administration.filters import by_day, known, recent
from live.administration.tables import COUNTED, BoundedList, Counted, Part, ReadOnly, Untouched

__all__ = [
    "COUNTED",
    "Counted",
    "LiveMedia",
    "BoundedList",
    "Part",
    "ReadOnly",
    "Untouched",
    "by_day",
    "carry_out",
    "folded",
    "is_confirmed",
    "known",
    "link",
    "once",
    "person",
    "preformatted",
    "question",
    "recent",
    "live_cell",
]
