"""What may be stored as JSON (PostgreSQL's jsonb takes less than Python's json gives), and which files are pictures."""

import json
from collections.abc import Iterable
from typing import Any

from jobs.errors import InvalidJson, PayloadTooLarge

# Arrays and objects around one another; a number or a text has depth 0, `[]` and `[1]` depth 1, `[[]]` depth 2.
# jsonb nests by recursion and refuses at the server's stack depth; json.dumps refuses at about 1,000.
MAX_DEPTH = 100
_ENCODER = json.JSONEncoder(allow_nan=False, ensure_ascii=False, separators=(",", ":"))
PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
SOUNDS = (".mp3", ".ogg", ".oga", ".opus", ".wav", ".m4a", ".flac")
FILMS = (".mp4", ".webm", ".ogv")
TEXTS = (".txt", ".md", ".log", ".csv", ".tsv", ".json", ".jsonl", ".yaml", ".yml", ".srt", ".vtt")
ABOUT = ("prompt", "title", "name", "url", "text")  # what a job is about, by the first of these keys
PREVIEW = "preview."  # how a worker names what only shows how far it is


def encoded(value: Any, *, limit_bytes: int, subject: str) -> str:
    """The JSON text of `value`, ready for a jsonb column. `subject` names it in the refusal.

    Raises PayloadTooLarge over `limit_bytes` of UTF-8, InvalidJson for what jsonb cannot hold: NaN and infinities,
    NUL characters, lone surrogates, numbers beyond its range, more than 100 arrays and objects around one another.
    """
    try:
        _check(value, depth=0)
        text = _ENCODER.encode(value)
        size = len(text) if text.isascii() else len(text.encode())
    except (ValueError, TypeError, RecursionError, UnicodeEncodeError) as error:
        raise InvalidJson(what=subject, why=_reason(error)) from None
    if size > limit_bytes:
        raise PayloadTooLarge(what=subject, size=size, limit=limit_bytes)
    return text


def title(payload: Any) -> str:
    """What a job is about, by the first key of `ABOUT` that holds a text; empty if none does."""
    texts = [payload.get(key) for key in ABOUT] if isinstance(payload, dict) else []
    return next((text for text in texts if isinstance(text, str) and text), "")


def pictures(names: Iterable[str], *, has_ended: bool) -> list[str]:
    """Those of these files that a page shows as pictures, in their order.

    Previews are shown while a job runs; once it has ended they give way to the picture, if there is one.
    """
    matches = [name for name in names if name.lower().endswith(PICTURES)]
    finished = [name for name in matches if not name.startswith(PREVIEW)]
    return finished if has_ended and finished else matches


def shown_as(name: str) -> str:
    """How a page shows a file of this name that is no picture: "audio", "video", "text", or "" for not at all."""
    for kind, endings in (("audio", SOUNDS), ("video", FILMS), ("text", TEXTS)):
        if name.lower().endswith(endings):
            return kind
    return ""


def _check(value: Any, *, depth: int) -> None:
    """Raise for what jsonb cannot hold. `depth`: how many arrays and objects are around this value."""
    if depth == MAX_DEPTH and isinstance(value, dict | list | tuple):
        raise ValueError(f"it has more than {MAX_DEPTH} levels of arrays and objects")
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_key(key)
            _check(item, depth=depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _check(item, depth=depth + 1)
    elif isinstance(value, int) and abs(value).bit_length() > 4096:
        raise ValueError("it holds a number of more than 4096 bits")


def _check_key(key: object) -> None:
    if not isinstance(key, str):
        raise TypeError(f"its keys must be strings, got {type(key).__name__}")
    _check_text(key)


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise ValueError("it holds a NUL character")


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "it holds half of a surrogate pair"
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    return "it holds NaN or an infinity" if str(error).startswith("Out of range float") else str(error)
