"""Arrays as PostgreSQL writes them (manual, 8.15.6).

psycopg inspects each element to find its type; for columns of thousands of rows that costs more than storing
them. Give the literal where the statement says the type: `%(names)s::text[]`.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from uuid import UUID


def literal(values: Iterable[Any]) -> str:
    """One dimension of texts, numbers, UUIDs, booleans, aware moments and None. Raises TypeError for anything else."""
    return "{" + ",".join(["NULL" if value is None else _element(value) for value in values]) + "}"


def plain(values: Iterable[int | UUID | str]) -> str:
    """One dimension of whole numbers or UUIDs (as a str: their digits), which need no quotes and no inspection of
    each."""
    return "{" + ",".join(map(str, values)) + "}"


def _element(value: Any) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, int | float | UUID):
        return str(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return f'"{value.isoformat()}"'
    raise TypeError(f"not an element of an array literal: {value!r}")
