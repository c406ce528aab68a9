"""Which pages may open the browsers' socket: scheme, name and port all count."""

import pytest
from hypothesis import given, strategies as st
from pytest_django import Settings

from live.routing import is_trusted
from tests.looped import looped


@pytest.fixture(autouse=True)
def _names(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["farm.example.org", "[::1]"]
    settings.CSRF_TRUSTED_ORIGINS = [
        "https://other.example.org",
        "https://*.example.net",
        "http://lab.example:8080",
        "https://*.example.com:99999",  # a mistake: nobody's
    ]


@pytest.mark.parametrize(
    ("origin", "host", "scheme"),
    [
        ("https://farm.example.org", "farm.example.org", "wss"),
        ("https://farm.example.org", "farm.example.org:443", "wss"),
        ("HTTPS://FARM.example.org", "farm.EXAMPLE.org", "https"),
        ("http://farm.example.org:8000", "farm.example.org:8000", "ws"),
        ("http://[::1]:8000", "[::1]:8000", "ws"),
        # Behind a proxy that keeps the scheme to itself: the settings name the origin.
        ("https://other.example.org", "farm.example.org", "ws"),
        ("https://a.example.net", "farm.example.org", "ws"),
        ("http://lab.example:8080", "farm.example.org", "ws"),
    ],
)
def test_of_this_site_and_of_trusted_origins_may(origin: str, host: str, scheme: str) -> None:
    assert is_trusted(origin, host=host, scheme=scheme)


@looped(
    ("origin", "host", "scheme"),
    [
        ("http://farm.example.org", "farm.example.org", "wss"),  # another scheme
        ("https://farm.example.org", "farm.example.org", "ws"),
        ("https://farm.example.org:8000", "farm.example.org:8000", "ws"),
        ("http://farm.example.org:8001", "farm.example.org:8000", "ws"),  # another port
        ("http://farm.example.org", "farm.example.org:8000", "ws"),
        ("http://evil.example", "evil.example", "ws"),  # a name of theirs that leads here
        ("http://evil.example", "farm.example.org", "ws"),
        ("http://other.example.org", "farm.example.org", "ws"),
        ("https://example.net", "farm.example.org", "ws"),
        ("https://evilexample.net", "farm.example.org", "ws"),
        ("https://a.example.net:444", "farm.example.org", "ws"),
        ("http://a.example.net:443", "farm.example.org", "ws"),
        ("https://a.example.com:99999", "farm.example.org", "ws"),
        ("null", "farm.example.org", "ws"),
        ("", "farm.example.org", "ws"),
        ("", "", "ws"),
        ("http://", "", "ws"),
        ("file://farm.example.org", "farm.example.org", "ws"),
        ("http://farm.example.org/path", "farm.example.org", "ws"),
        ("http://farm.example.org?path", "farm.example.org", "ws"),
        ("http://farm.example.org#path", "farm.example.org", "ws"),
        ("http://farm.example.org:99999", "farm.example.org", "ws"),
        ("http://[bad", "farm.example.org", "ws"),
        ("http://farm.example.org", "[bad", "ws"),
        ("http://farm.example.org", "evil@farm.example.org", "ws"),
    ],
)
def test_of_anything_else_may_not(origin: str, host: str, scheme: str) -> None:
    assert not is_trusted(origin, host=host, scheme=scheme)


def test_without_a_name_may_not_even_where_every_name_is_allowed(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["*"]
    assert is_trusted("http://farm.example.org", host="farm.example.org", scheme="ws")
    assert not is_trusted("http://", host="", scheme="ws")


@given(origin=st.text(), host=st.text())
def test_any_text_is_answered(origin: str, host: str) -> None:
    assert not is_trusted(origin, host=host, scheme="ws")
