"""What of the texts of a kind's jobs is not kept: whatever matches its patterns, which are RE2's, one a line.

The time that RE2 takes grows with the text and the size of the pattern, never faster: none keeps a process busy.
"""

from functools import lru_cache
from typing import Any, Final

import re2

REDACTED: Final = "[redacted]"
MOST_BYTES: Final = 1_000_000  # of an output; a longer one is deleted
_CHARACTERS: Final = 2_000  # of all patterns of a kind
_PROGRAM: Final = 3_000  # instructions: what a search costs a character at the worst
_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False


@lru_cache(maxsize=100)
def expression(patterns: str) -> Any:
    """One expression of these patterns. Raises ValueError for what is none of RE2, too long, or matches no text."""
    if len(patterns) > _CHARACTERS:
        raise ValueError(f"the patterns of redact have at most {_CHARACTERS:,} characters together")
    lines = [line for line in patterns.splitlines() if line.strip()]
    for line in lines:
        _compiled(line)
    whole = _compiled("|".join(f"(?:{line})" for line in lines))
    if whole.programsize > _PROGRAM:
        raise ValueError("the patterns of redact repeat too much")
    if whole.search(""):
        raise ValueError("a pattern of redact matches where there is no text")
    return whole


def check(patterns: str) -> None:
    """Raise ValueError as `expression`; no patterns are fine."""
    if patterns:
        expression(patterns)


def redacted(value: Any, patterns: str) -> Any:
    """This text or JSON with REDACTED in place of what matches, in names too."""
    if isinstance(value, str):
        return expression(patterns).sub(REDACTED, value)
    if isinstance(value, dict):
        return {redacted(name, patterns): redacted(each, patterns) for name, each in value.items()}
    return [redacted(each, patterns) for each in value] if isinstance(value, list) else value


def _compiled(pattern: str) -> Any:
    try:
        return re2.compile(pattern, _OPTIONS)
    except re2.error as error:
        raise ValueError(f"redact: {pattern!r} is no pattern of RE2: {error.args[0].decode()}") from None
