"""Reading what an OpenAI-compatible server says it offers."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

MOST: Final = 5000
_LONGEST: Final = 255
_LATEST: Final = 253_402_300_799  # the end of the year 9999, in seconds since 1970


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    name: str
    owned_by: str
    made_at: datetime | None


def read(document: Any) -> list[Offered]:
    """The models in an answer to GET /models, each name once, in the server's order. Raises ValueError for what is no
    such answer. An entry without a usable id is left out."""
    if not isinstance(document, Mapping) or not isinstance(document.get("data"), list):
        raise ValueError("the answer has no list named data")  # noqa: TRY004 (it is the value that came)
    by_name: dict[str, Offered] = {}
    for entry in document["data"][:MOST]:
        if isinstance(entry, Mapping) and (name := _text(entry.get("id"))):
            made_at, owner = _moment(entry.get("created")), _text(entry.get("owned_by"))
            by_name.setdefault(name, Offered(name=name, owned_by=owner, made_at=made_at))
    return list(by_name.values())


def _text(value: Any) -> str:
    return value if isinstance(value, str) and value.isprintable() and len(value) <= _LONGEST else ""


def _moment(value: Any) -> datetime | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return datetime.fromtimestamp(value, UTC) if is_number and 0 < value <= _LATEST else None
