"""Two texts side by side, line by line."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Final

MOST_LINES: Final = 400  # of each text, its last: 0.1 s at the worst
LONGEST_LINE: Final = 500  # characters
CONTEXT: Final = 3  # equal lines that are shown around a difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of each text beside its counterpart; None where the other text alone has one. A gap has neither."""

    left: str | None
    right: str | None
    is_same: bool = False

    @property
    def is_gap(self) -> bool:
        return self.left is None and self.right is None


_GAP: Final = Row(left=None, right=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What two texts have in common and what not. `is_cut`: one of them had earlier lines or longer ones."""

    rows: list[Row]
    is_same: bool
    is_cut: bool


def compare(left: str, right: str) -> Comparison:
    """The differences of two texts with a few equal lines around each; of long texts of their last lines."""
    lefts, rights = left.splitlines(), right.splitlines()
    old, new = _bounded(lefts), _bounded(rights)
    rows = list(_rows(old, new))
    return Comparison(rows=rows, is_same=left == right, is_cut=(old, new) != (lefts, rights))


def _bounded(lines: list[str]) -> list[str]:
    return [line[:LONGEST_LINE] for line in lines[-MOST_LINES:]]


def _rows(old: list[str], new: list[str]) -> Iterator[Row]:
    for number, group in enumerate(SequenceMatcher(None, old, new).get_grouped_opcodes(CONTEXT)):
        if number:
            yield _GAP
        for tag, i1, i2, j1, j2 in group:
            for pair in zip_longest(old[i1:i2], new[j1:j2]):
                yield Row(left=pair[0], right=pair[1], is_same=tag == "equal")
