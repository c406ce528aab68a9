"""The fixtures of the live queries' own tests, and pages that open a socket."""

from collections.abc import AsyncIterator

import pytest_asyncio

from live import hub
from tests.live.edges.page import Page
from tests.live.integration.conftest import _fresh_reads, _test_templates

__all__ = ["_fresh_reads", "_test_templates"]


@pytest_asyncio.fixture
async def pages() -> AsyncIterator[type[Page]]:
    """Open pages with `await pages.open(...)`; they and the hub end with the test."""
    Page.all = []
    yield Page
    for page in Page.all:
        await page.close()
    await hub.current().stop()
