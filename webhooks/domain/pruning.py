"""Taking parts out of a JSON document that others read too: only what leads to them is copied."""

import copy
from typing import Any

Path = tuple[int | str, ...]  # names within objects and places within lists


class Draft:
    """A document from which parts are taken away; the original stays as it is."""

    def __init__(self, document: object) -> None:
        self.body = document
        self._copies: dict[Path, Any] = {}
        self._gone: set[Path] = set()

    def __len__(self) -> int:
        """How many parts were taken away."""
        return len(self._gone)

    def take_away(self, part: Path) -> bool:
        """Take away a named part of an object, if it is not gone already, by itself or with what it was in. Whether it
        is gone now: the whole document cannot be taken away, nor what is not there."""
        if any(part[:length] in self._gone for length in range(1, len(part) + 1)):
            return True
        try:
            del self._copy(part[:-1])[part[-1]]
        except (KeyError, IndexError, TypeError):
            return False
        self._gone.add(part)
        return True

    def _copy(self, place: Path) -> Any:
        """What is at a place, as a copy of our own within copies of our own; each is copied once."""
        if place not in self._copies:
            if place:
                holder = self._copy(place[:-1])
                holder[place[-1]] = self._copies[place] = copy.copy(holder[place[-1]])
            else:
                self.body = self._copies[place] = copy.copy(self.body)
        return self._copies[place]
