"""Patterns of what is redacted: which are taken, and what they make of a text."""

import pytest

from jobs.domain import kinds
from jobs.domain.kinds import Kind

PATTERNS = "[\\w.]+@[\\w.]+\nsk-[a-z0-9]{8,}"


def test_every_text_and_name_is_searched_for_each_pattern() -> None:
    value = {"to": ["ada@example.org", 7, None, {"ada@example.org": True}], "key": "it is sk-12345678, you know"}
    assert kinds.redacted(value, PATTERNS) == {
        "to": ["[redacted]", 7, None, {"[redacted]": True}],
        "key": "it is [redacted], you know",
    }


@pytest.mark.parametrize(
    ("patterns", "why"),
    [
        ("(a", "is no pattern of RE2"),
        ("(a)\\1", "is no pattern of RE2"),
        ("fine\n(?=a)", "is no pattern of RE2"),
        ("a*", "matches where there is no text"),
        ("fine\n(x|)", "matches where there is no text"),
        ("(abcdefghij){900}", "repeat too much"),
        ("a" * 2001, "at most 2,000 characters"),
    ],
)
def test_a_kind_is_refused_with_a_pattern_that_is_none_or_too_dear(patterns: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Kind(name="work", redact=patterns)


def test_a_pattern_that_makes_others_backtrack_is_searched_for_once_along_the_text() -> None:
    assert kinds.redacted("a" * 500_000 + "!", "(a+)+b") == "a" * 500_000 + "!"
