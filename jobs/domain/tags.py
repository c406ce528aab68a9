"""Tags: short words that a job is submitted with and found by."""

import re
from collections.abc import Iterable
from typing import Any, Final

from core.values import words
from jobs.errors import InvalidValue

MOST_TAGS: Final = 10  # of a job
LONGEST_TAG: Final = 64
MOST_TAGGED: Final = 5_000  # jobs of a tag, the newest, among which one page chooses
# Letters and digits of any language and a few signs; no comma, which stands between tags, and nothing that an address,
# a header or an array of PostgreSQL writes in another way.
TAG: Final = re.compile(rf"[\w.:/@+#=-]{{1,{LONGEST_TAG}}}")


def checked(tags: Iterable[Any]) -> tuple[str, ...]:
    """The tags, each once, in their order. Raises InvalidValue."""
    named = tuple(dict.fromkeys(tags))
    if len(named) > MOST_TAGS:
        raise InvalidValue(field="tags", why=f"at most {MOST_TAGS}, got {len(named)}")
    for tag in named:
        if not isinstance(tag, str) or not TAG.fullmatch(tag):
            raise InvalidValue(
                field="tags", why=f"1 to {LONGEST_TAG} letters, digits or . : / @ + # = _ - each, got {tag!r}"
            )
    return named


def is_list(text: str) -> bool:
    """Whether this text names tags that a job may have."""
    tags = words(text)
    return 1 <= len(tags) <= MOST_TAGS and all(TAG.fullmatch(tag) for tag in tags)
