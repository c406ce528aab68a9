"""What Python's garbage collector may leave alone in a process that serves."""

import gc
from importlib import import_module
from typing import Final

from django.conf import settings

# Python's own are 700, 10, 10: each change of a live page with ten watchers was looked over several times while it was
# still being made, and outlived the young generations. The reasons and the figures are docs/adr/0037.
THRESHOLDS: Final = (10_000, 10, 10)


def freeze() -> None:
    """Load what the first request would, exempt all there is now from collection, for the life of the process, and
    collect what comes from now on.

    Call it once, at the end of the start: what is garbage afterwards and was there before is never freed.
    """
    import_module(settings.ROOT_URLCONF)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
