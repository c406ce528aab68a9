"""How much is tried of what could be tried without end: a share in each `make test`, all of it before a landing.

A race that is lost once in a thousand rounds is found by landings; what a change breaks outright, by either."""

import os
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

Entry = TypeVar("Entry")

# `make test-landing` and `make test-all` say so.
IS_WHOLE: Final = os.environ.get("JOBFARM_EFFORT") == "whole"


def share(whole: int, *, of: int) -> int:
    """So many rounds, seeds or sequences; one of so many in a run that need not be whole."""
    return whole if IS_WHOLE else whole // of


def turn(entries: Sequence[Entry], *, of: int, beside: int = 1) -> Sequence[Entry]:
    """All entries; in a run that need not be whole one of so many, and others at another commit. What is in turn
    `beside` what has one of so many turns of its own meets each of those."""
    if IS_WHOLE:
        return entries
    return entries[_commit() // beside % of :: of]


@cache
def _commit() -> int:
    """The number of the commit that is tried; 0 where there is none."""
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, check=False)
    return int(head.stdout or b"0", 16)
