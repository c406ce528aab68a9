"""What an attempt that ends suspended waits for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jobs.domain.flows import MOST_INTO
from jobs.errors import InvalidValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The jobs that it submitted, all of which have to end, however they do; none: it is due again at once."""

    children: Sequence[int] = ()

    def __post_init__(self) -> None:
        """Raise InvalidValue for more than a job may come after."""
        if len(self.children) > MOST_INTO:
            raise InvalidValue(field="children", why=f"{MOST_INTO:,} at most, got {len(self.children):,}")


AT_ONCE: Final = Wait()
