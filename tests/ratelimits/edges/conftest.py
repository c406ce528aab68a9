"""What the tests of pages and routes share."""

import pytest
from pytest_django import Settings


@pytest.fixture(autouse=True)
def _limits_site(settings: Settings) -> None:
    """The site with the pages of limits and a few views under limits."""
    settings.ROOT_URLCONF = "tests.ratelimits.edges.site"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "ratelimits.http.report"]
