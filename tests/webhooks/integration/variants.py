"""Bodies unlike what their sender documents: each field left out, null or of another type; two siblings left out."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Path = tuple[int | str, ...]
OTHERS: tuple[Any, ...] = ("a text", 7, 0.5, True, [], {}, ["a", {"b": None}], {"id": "other"}, -1, 2**63, "")
GONE = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A body in which some places have another value, or none at all (GONE)."""

    changes: tuple[tuple[Path, Any], ...]
    body: Any

    def named(self) -> Iterator[tuple[str, Any]]:
        """The places with full stops between, and what is there now."""
        return ((".".join(map(str, path)), to) for path, to in self.changes)

    def __str__(self) -> str:
        shown = (("/".join(map(str, path)), "gone" if to is GONE else repr(to)) for path, to in self.changes)
        return ", ".join(f"{path} is {value}" for path, value in shown)


def variant(document: Any, *changes: tuple[Path, Any]) -> Variant:
    """The document with these changes; what is not on the way to one is shared with it."""
    body = document
    for path, to in changes:
        body = _with(body, path, to)
    return Variant(changes=changes, body=body)


def fields(document: Any, at: Path = ()) -> Iterator[Path]:
    """Every place in a document: each field of each object, each item of each list."""
    pairs = document.items() if isinstance(document, dict) else enumerate(document)
    for name, value in pairs:
        yield (*at, name)
        if isinstance(value, dict | list):
            yield from fields(value, (*at, name))


def of_other_types(document: Any, paths: list[Path]) -> Iterator[Variant]:
    """Each of these places null, and with each value that is of another type than its own, or of no use as its own."""
    for path in paths:
        own = value(document, path)
        for other in (None, *OTHERS):
            if type(other) is not type(own) or other in ("", -1, 2**63):
                yield variant(document, (path, other))


def without_two(document: Any, paths: list[Path]) -> Iterator[Variant]:
    """Of these places each two of one object left out."""
    for one, other in itertools.combinations(paths, 2):
        if one[:-1] == other[:-1] and isinstance(one[-1], str):
            yield variant(document, (one, GONE), (other, GONE))


def value(document: Any, path: Path) -> Any:
    """What is at a place."""
    for part in path:
        document = document[part]
    return document


def _with(document: Any, path: Path, to: Any) -> Any:
    copied = document.copy()
    if len(path) > 1:
        copied[path[0]] = _with(document[path[0]], path[1:], to)
    elif to is GONE:
        del copied[path[0]]
    else:
        copied[path[0]] = to
    return copied
