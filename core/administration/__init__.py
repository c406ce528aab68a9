"""What the administration's pages of all apps are made of: bounded however large a table is, and asking first."""

from core.administration.confirmation import AT_ONCE, Operated, carry_out, on_each
from core.administration.filters import among, by_day, by_flag, known, recent
from core.administration.tables import (
    COUNTED,
    NOTHING,
    BoundedChangeList,
    BoundedList,
    Counted,
    OnSite,
    Paged,
    Part,
    ReadOnly,
    Untouched,
    link,
    listed,
    registered,
    shown,
)
