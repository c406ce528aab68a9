"""How much is tried of what could be tried without end: a share in each `make test`, all of it before a landing.

A race that is lost once in a thousand rounds is found by landings; what a change breaks outright, by either."""

import os
from typing import Final

# `make test-landing` and `make test-all` say so.
IS_WHOLE: Final = os.environ.get("JOBFARM_EFFORT") == "whole"


def share(whole: int, *, of: int) -> int:
    """So many rounds, seeds or sequences; one of so many in a run that need not be whole."""
    return whole if IS_WHOLE else whole // of
