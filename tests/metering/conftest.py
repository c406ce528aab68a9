"""What these tests stand on: nothing is known of who has budgets from the test before."""

from collections.abc import Iterator

import pytest

from metering import operations as metering


@pytest.fixture(autouse=True)
def _known_anew() -> Iterator[None]:
    """Each process remembers for some seconds who has budgets."""
    metering.forget_known()
    yield
    metering.forget_known()
