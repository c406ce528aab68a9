"""Which kinds report tokens, and how they are read. Declared in every process, in an app's `kinds.py` or `hooks.py`."""

from collections.abc import Callable
from typing import Any

from jobs.registry import METERED_KINDS
from metering import domain
from metering.domain import Reader, Tokens, Written

_readers: dict[str, Reader] = {}


def declare(
    kind: str, *, model: tuple[str, ...] = ("model",), used: Callable[[Any], Tokens] = domain.used,
    expected: Callable[[Any], Tokens] = domain.expected, written: Callable[[str], Written] | None = None,
) -> Reader:  # fmt: skip
    """Have tokens of this kind's jobs counted: `model` is the path of the model's name in a payload, `used` reads a
    result, `expected` a payload; `written` reads output, of attempts that end without saying what they used. The same
    kind again must say the same, or ValueError."""
    reader = Reader(model=model, used=used, expected=expected, written=written)
    if _readers.setdefault(kind, reader) != reader:
        raise ValueError(f"how tokens of the kind {kind!r} are read is declared twice")
    METERED_KINDS.add(kind)
    return reader


def reader_of(kind: str) -> Reader | None:
    """How tokens of this kind are read; None for one that has none."""
    return _readers.get(kind)
