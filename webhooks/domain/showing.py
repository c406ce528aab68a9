"""A body as a page shows it: JSON that folds, text, or bytes in hexadecimal; never all of a large one."""

import codecs
from dataclasses import dataclass
from typing import Any, Final

from webhooks.domain import parsing
from webhooks.errors import NotJson

PARSED_BYTES: Final = 1 << 20  # what is parsed for a page: some ten milliseconds
SHOWN_BYTES: Final = 50_000  # of a body that is shown as it came
DUMPED_BYTES: Final = 4_096  # of one that is no text
_BYTES_PER_ROW: Final = 16
# What a text may hold besides what can be printed. NUL is shown by its symbol: no page takes the character itself.
_NUL: Final = {0: "\N{SYMBOL FOR NULL}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """`document` is what the JSON says (`is_json`; it was `altered` where a string could not be shown as it is);
    `text` the bytes as text, or None where they are none; `dump` then shows them. `reason` says why it is no JSON."""

    is_json: bool
    document: Any
    altered: bool
    reason: str
    text: str | None
    dump: str
    is_cut: bool


def show(body: bytes, *, size: int, content_type: str) -> Shown:
    """What to show of a body of which these are the first bytes."""
    reason = f"it is larger than {PARSED_BYTES} bytes" if size > len(body) else ""
    document, altered = None, False
    if not reason:
        try:
            parsed = parsing.parse(body, content_type=content_type)
            document, altered = parsed.document, parsed.is_altered
        except NotJson as refusal:
            reason = refusal.reason
    text = _text(body[:SHOWN_BYTES])
    return Shown(
        is_json=not reason,
        document=document,
        altered=altered,
        reason=reason,
        text=text,
        dump=_dump(body[:DUMPED_BYTES]) if text is None else "",
        is_cut=size > (SHOWN_BYTES if text is not None else DUMPED_BYTES),
    )


def _text(beginning: bytes) -> str | None:
    """As UTF-8; a character that the cut goes through is left out. None for what is none."""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(beginning)
    except UnicodeDecodeError:
        return None
    return text.translate(_NUL)


def _dump(body: bytes) -> str:
    """Sixteen bytes a row: offset, hexadecimal, and the readable characters."""
    rows = []
    for at in range(0, len(body), _BYTES_PER_ROW):
        part = body[at : at + _BYTES_PER_ROW]
        readable = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        rows.append(f"{at:06x}  {part.hex(' '):<{3 * _BYTES_PER_ROW - 1}}  {readable}")
    return "\n".join(rows)
