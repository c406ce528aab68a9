"""Results of checks of the farm: findings, and how bad they are."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum


class Level(IntEnum):
    """How bad it is. `STARTING`: it would be bad later; the farm has only just been started."""

    FINE = 0
    STARTING = 1
    WARNING = 2
    ERROR = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check: a sentence, what to do if it is not fine, and the name of the page on which that is done
    (`page_of` is what its address holds).

    /health/ready shows strangers the sentences of its checks and never a remedy: hosts are named in remedies alone.
    """

    sentence: str
    remedy: str = ""
    level: Level = Level.WARNING
    page: str = ""
    page_of: str = ""


Check = Callable[[], Iterator[Finding]]
