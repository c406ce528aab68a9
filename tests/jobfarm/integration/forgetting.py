"""What the documents print declares kinds, limits, functions and crons; the farm of the tests forgets them again."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.urls import get_resolver

from jobs import kinds
from metering.operations import meter as metered
from ratelimits import limits
from scheduling import registry
from scheduling.operations import crons, retention

REGISTRIES: tuple[dict[str, Any], ...] = (
    kinds.DECLARED, kinds.HOOKS, limits._declared, crons._declared, retention._declared, registry._functions,
    metered._readers,
)  # fmt: skip


@contextmanager
def what_is_declared() -> Iterator[None]:
    """Forget at the end what was declared meanwhile, but for what is declared when the pages are first asked for."""
    assert get_resolver().url_patterns
    kept = [dict(one) for one in REGISTRIES]
    try:
        yield
    finally:
        for one, before in zip(REGISTRIES, kept, strict=True):
            one.clear()
            one.update(before)
