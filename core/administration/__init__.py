"""What the administration's pages of all apps are made of: bounded however large a table is, and asking first."""

from core.administration.filters import among, by_day, by_flag, known, recent
from core.administration.tables import (
    AT_ONCE,
    COUNTED,
    NOTHING,
    BoundedChangeList,
    BoundedList,
    Counted,
    OnSite,
    Operated,
    Paged,
    Part,
    ReadOnly,
    Untouched,
    carry_out,
    deleted_objects,
    link,
    listed,
    on_each,
    registered,
    shown,
)
