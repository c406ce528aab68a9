"""How well painting goes: the means of the last few pictures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

SAMPLED = 5  # pictures
GOOD_ABOVE, FAIR_ABOVE = 0.8, 0.5  # shares that succeeded

Mood = Literal["", "good", "late", "bad"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Painted:
    """A picture that came to its end: whether there is one now, and after how many seconds from its submission."""

    succeeded: bool
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What `pictures` of them say; the means are None where there were none. `mood` is how that looks on a page."""

    pictures: int
    succeeded: int
    mean_s: float | None
    share: float | None
    mood: Mood


def of(painted: Sequence[Painted]) -> Health:
    """The mean time and the share that succeeded; of none, neither good nor bad."""
    if not painted:
        return Health(pictures=0, succeeded=0, mean_s=None, share=None, mood="")
    succeeded = sum(one.succeeded for one in painted)
    share = succeeded / len(painted)
    mood: Mood = "good" if share > GOOD_ABOVE else "late" if share > FAIR_ABOVE else "bad"
    mean_s = sum(one.took_s for one in painted) / len(painted)
    return Health(pictures=len(painted), succeeded=succeeded, mean_s=mean_s, share=share, mood=mood)
