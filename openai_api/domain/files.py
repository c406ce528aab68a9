"""Files of OpenAI's API: their names, purposes and ids."""

import re
from pathlib import PurePath
from typing import Final
from uuid import UUID

from openai_api.errors import InvalidCall

BATCH: Final = "batch"
OUTPUT: Final = "batch_output"  # the purpose of what batches write
LONGEST_NAME: Final = 255
SHORTEST_S, LONGEST_S = 3600, 2_592_000  # `expires_after[seconds]`, as at OpenAI
_PURPOSE: Final = re.compile(r"[a-z][a-z0-9_-]{0,49}")
_SUFFIX: Final = re.compile(r"\.[A-Za-z0-9]{1,10}")
_ID: Final = re.compile(r"file-([0-9a-f]{32})")


def check(*, purpose: str, name: str) -> None:
    """Raise InvalidCall for what cannot be a file's purpose or name."""
    if not _PURPOSE.fullmatch(purpose) or purpose == OUTPUT:
        raise InvalidCall(param="purpose", why='a word such as "batch"')
    if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
        raise InvalidCall(param="file", why=f"a name of 1 to {LONGEST_NAME} printable characters")


def checked_expiry(seconds: float) -> float:
    """`seconds`, if a file may be kept for so long. Raises InvalidCall."""
    if not SHORTEST_S <= seconds <= LONGEST_S:
        raise InvalidCall(param="expires_after", why=f"from {SHORTEST_S} to {LONGEST_S} seconds")
    return seconds


def stored_name(name: str) -> str:
    """What the upload of a file with this name is called: its ending says its type, the rest may be anything."""
    suffix = PurePath(name).suffix
    return f"file{suffix if _SUFFIX.fullmatch(suffix) else ''}"


def id_of(public_id: str) -> UUID | None:
    """The id that "file-..." names; None for what is none."""
    match = _ID.fullmatch(public_id)
    return UUID(match[1]) if match else None
