"""Names and types of files: result files that workers hand in, and input files that jobs are given."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from mimetypes import MimeTypes
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from core.large_json import Path
from jobs.errors import InvalidName, InvalidValue, NoSuchRange, UnknownFile

NAME: Final = re.compile(r"(?!\.)[A-Za-z0-9._-]{1,100}")
MOST_INPUTS: Final = 16  # of one job
RESULT: Final = "whole-result.json"  # the file of a result that is too long for a row
UNUSED_FOR_S: Final = 24 * 3600.0  # how long an upload is kept that no job uses
# What a browser may show in a page of ours. All else is for saving: whoever made a file chooses what is in it.
SHOWN: Final[Mapping[str, str]] = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
    ".txt": "text/plain; charset=utf-8",
    ".mp3": "audio/mpeg", ".ogg": "audio/ogg", ".oga": "audio/ogg", ".opus": "audio/ogg", ".wav": "audio/wav",
    ".m4a": "audio/mp4", ".flac": "audio/flac",
    ".mp4": "video/mp4", ".webm": "video/webm", ".ogv": "video/ogg",
}  # fmt: skip
UNKNOWN_TYPE: Final = "application/octet-stream"
_TYPES: Final = MimeTypes(filenames=())  # what Python knows, whatever this machine's /etc/mime.types says
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Bytes of a file: `length` from `start` on."""

    start: int
    length: int


def type_of(name: str) -> str:
    """The media type that a file's name promises, without parameters; nobody has looked at its bytes."""
    shown = SHOWN.get(PurePath(name).suffix.lower())
    return (shown or _TYPES.guess_type(name)[0] or UNKNOWN_TYPE).partition(";")[0]


def check_name(name: str) -> None:
    if not NAME.fullmatch(name):
        raise InvalidName(name=name)


def plain_name(name: str) -> str:
    """The nearest name to this one, as a person's machine has it, that can name a file here."""
    stem, suffix = PurePath(name).stem, PurePath(name).suffix
    stem, suffix = (_ODD.sub("-", part) for part in (stem, suffix))
    room = 100 - len(suffix[:20])
    return (stem.strip("-.")[:room] or "file") + suffix[:20].rstrip("-.")


def references(files: Mapping[str, str | UUID], *, parts: int = 0) -> dict[str, UUID]:
    """The uploads that a submission names, by the names that its job shall have them under; so many are parts of its
    payload.

    Raises InvalidValue for too many or none of a name, InvalidName, UnknownFile for what is no id.
    """
    if len(files) - parts > MOST_INPUTS:
        raise InvalidValue(field="files", why=f"at most {MOST_INPUTS} of them, got {len(files)}")
    for name in files:
        check_name(name)
    return {name: _reference(value) for name, value in files.items()}


def span(header: str, *, size: int) -> Span | None:
    """What a Range header asks for of a file of this size; None for all of it: no range, several, or no bytes
    (RFC 9110, 14.2). Raises NoSuchRange for one behind the end."""
    match = re.fullmatch(r"bytes=(\d{0,18})-(\d{0,18})", header.strip())
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:  # the last so many
        start, end = max(0, size - int(match[2])), size - 1
    else:
        start, end = int(match[1]), min(int(match[2] or size), size - 1)
    if match[1] and match[2] and int(match[2]) < int(match[1]):
        return None
    if start >= size or end < start:
        raise NoSuchRange(size=size)
    return Span(start=start, length=end - start + 1)


def uploads_of(inputs: Iterable[Mapping[str, Any]]) -> dict[str, UUID]:
    """The uploads that a job has, from what its payload row says of them."""
    return {entry["name"]: UUID(entry["file"]) for entry in inputs}


def places_of(inputs: Iterable[Mapping[str, Any]]) -> dict[str, list[Path]]:
    """Where those of a job's inputs belong that are parts of its payload."""
    return {entry["name"]: [tuple(path) for path in entry["at"]] for entry in inputs if "at" in entry}


def kept_places(inputs: Iterable[Mapping[str, Any]], *, old: Any, new: Any) -> dict[str, list[Path]]:
    """Where parts of an old payload belong in an edited copy of it: where their placeholders, or what they are part of,
    were left as they were."""
    places = places_of(inputs)
    kept = {name: [path for path in paths if _is_same(old, new, path)] for name, paths in places.items()}
    return {name: paths for name, paths in kept.items() if paths}


def _is_same(old: Any, new: Any, path: Path) -> bool:
    for step in path:
        try:
            old, new = old[step], new[step]
        except (KeyError, IndexError, TypeError):  # it lies within another part
            break
    return bool(old == new)


def _reference(value: str | UUID) -> UUID:
    try:
        return value if isinstance(value, UUID) else UUID(value)
    except ValueError:
        raise UnknownFile(file=value) from None
