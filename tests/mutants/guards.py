"""The guards that guards.toml lists."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LISTED: Final = Path(__file__).parent / "guards.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """In which file what stands, what stands there instead, and which tests are to notice. `explained`: why nobody can
    miss it, of one that survives."""

    file: str
    text: str
    instead: str
    tests: str
    explained: str = ""

    def __str__(self) -> str:
        return f"{self.file}: {' '.join(self.text.split())} -> {' '.join(self.instead.split()) or 'nothing'}"


def listed() -> Iterator[Guard]:
    """All of them, in the order of the list."""
    for of in tomllib.loads(_LISTED.read_text())["of"]:
        for one in of["guards"]:
            yield Guard(file=of["file"], **{"tests": of["tests"], **one})
