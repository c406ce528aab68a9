"""A pool wide enough for 32 threads, and commits that do not wait for the disk: the races are the same,
the rounds faster."""

from collections.abc import Iterator

import pytest
from django.db import connection

from tests.ratelimits.concurrency.crew import Crew

THREADS = 32


@pytest.fixture
def crew(transactional_db: None) -> Iterator[Crew]:
    """32 threads with a connection each."""
    options = connection.settings_dict["OPTIONS"]
    before = {name: options.get(name) for name in ("pool", "options")}
    options["pool"] = {**options["pool"], "max_size": THREADS + 4}
    options["options"] = f"{options.get('options') or ''} -c synchronous_commit=off".strip()
    _fresh_pool()
    with Crew(THREADS) as together:
        yield together
    options.update(before)
    _fresh_pool()


def _fresh_pool() -> None:
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]  # Django's stubs leave it out
