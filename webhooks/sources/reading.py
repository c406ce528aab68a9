"""Reading ids, types and times out of what was verified. Everything here is as hostile as any input."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from webhooks.errors import BadEnvelope
from webhooks.sources.requests import LONGEST_ID, Request

_EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC).timestamp()
_LATEST: Final = datetime(2200, 1, 1, tzinfo=UTC).timestamp()


def mapping(document: Any) -> Mapping[str, Any]:
    """The body as an object. Raises BadEnvelope."""
    if not isinstance(document, Mapping):
        raise BadEnvelope(reason="the body must be a JSON object")
    return document


def name(value: Any, *, field: str) -> str:
    """A type or id that can be a name: a text of 1 to 255 printable characters. Raises BadEnvelope."""
    if not isinstance(value, str) or not value:
        raise BadEnvelope(reason=f"{field} is missing")
    if len(value) > LONGEST_ID or not value.isprintable():
        raise BadEnvelope(reason=f"{field} is longer than {LONGEST_ID} characters, or not printable")
    return value


def event(value: Any, *, field: str) -> str:
    """The type of an event; empty where there is none: that is stored and ignored. Raises BadEnvelope for no name."""
    return "" if value is None or value == "" else name(value, field=field)


def header_name(request: Request, header: str) -> str | None:
    """The value of a header that names something; None without one. Raises BadEnvelope."""
    value = request.headers.get(header)
    return name(value, field=header) if value else None


def milliseconds(value: Any) -> datetime | None:
    """A time in milliseconds since 1970; None if it is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return seconds(value / 1000) if is_number else None


def seconds(value: Any) -> datetime | None:
    """A time in seconds since 1970, of this century or the next; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return datetime.fromtimestamp(value, UTC) if _EARLIEST <= value <= _LATEST else None


def iso(value: Any) -> datetime | None:
    """A time in ISO 8601 with a zone; None if it is none."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) and len(value) <= 40 else None
    except ValueError:
        return None
    if moment is None or moment.tzinfo is None:
        return None
    return seconds(moment.timestamp()) and moment.astimezone(UTC)
