"""JSON from strangers: what is no JSON, or would stall or break whoever reads it, is refused with a reason."""

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs

from core.values import NamedTwice, unique_names
from webhooks.errors import NotJson

# Real payloads nest about ten deep. Python's parser recurses, and so does whoever walks the result.
DEEPEST: Final = 100
# Whole numbers of more digits take quadratic time to read; 2**63 has 19, and PostgreSQL's numeric takes these.
MOST_DIGITS: Final = 100
FORM: Final = "application/x-www-form-urlencoded"

_HOSTILE: Final = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")  # an escaped U+0000, or half of a surrogate pair
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")
# Strings are skipped whole. One that does not end is taken to the end, and nothing is given back (`*+`): looked for
# again from each quote within it, six megabytes took nine seconds.
_BRACKETS: Final = re.compile(r'"(?:[^"\\]|\\(?:.|\Z))*+(?:"|\Z)|[\[\]{}]', re.DOTALL)
_SURROGATE: Final = "\N{REPLACEMENT CHARACTER}"
_NUL: Final = "\N{SYMBOL FOR NULL}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A document in which every string can be stored; `is_altered` says that one had to be changed for that."""

    document: Any
    is_altered: bool


def parse(body: bytes, *, content_type: str = "application/json") -> Parsed:
    """The JSON in these bytes (of a form: in its field `payload`).

    Stricter than Python's parser where readers differ or PostgreSQL refuses: no NaN, no infinity, no number outside
    of a double's range, no name twice in one object, no byte order mark. U+0000 becomes U+2400, and half a surrogate
    pair U+FFFD. Raises NotJson with its `reason`.
    """
    is_form = content_type.strip().lower().startswith(FORM)
    text = _text(_payload(body) if is_form else body)
    _refuse_depth(text)
    try:
        document = json.loads(
            text, object_pairs_hook=unique_names, parse_int=_integer, parse_float=_number, parse_constant=_constant
        )
    except RecursionError:
        raise NotJson(reason="it is nested too deep") from None
    except NamedTwice as error:
        raise NotJson(reason=str(error)) from None
    except json.JSONDecodeError as error:
        raise NotJson(reason=f"{error.msg} at character {error.pos}") from None
    if not (_HOSTILE.search(body) or is_form):
        return Parsed(document=document, is_altered=False)
    storable = _storable(document)
    return Parsed(document=storable, is_altered=storable != document)


def words(document: Any, *, most: int) -> str:
    """The strings and numbers of a document in a row, for a search, cut after `most` characters."""
    parts: list[str] = []
    length = 0
    for word in _leaves(document):
        parts.append(word[: most - length])
        length += len(parts[-1]) + 1
        if length >= most:
            break
    return " ".join(parts)


def _payload(body: bytes) -> bytes:
    try:
        fields = parse_qs(body.decode("ascii"), keep_blank_values=True, max_num_fields=20, errors="strict")
    except ValueError:
        raise NotJson(reason="the form cannot be read") from None
    if len(fields.get("payload", [])) != 1:
        raise NotJson(reason="the form must have one field named payload")
    return fields["payload"][0].encode("utf-8", "surrogatepass")


def _text(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotJson(reason=f"byte {error.start} is not UTF-8") from None


def _refuse_depth(text: str) -> None:
    """Look at the brackets alone: fewer than the limit in all, and there is nothing to count."""
    if text.count("[") + text.count("{") <= DEEPEST:
        return
    depth = 0
    for bracket in _BRACKETS.finditer(text):
        mark = bracket[0]
        if mark in "[{":
            depth += 1
            if depth > DEEPEST:
                raise NotJson(reason=f"it is nested more than {DEEPEST} deep")
        elif mark in "]}":
            depth -= 1


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise NotJson(reason=f"a number has {len(digits)} digits; at most {MOST_DIGITS} are taken")
    return int(digits)


def _number(digits: str) -> float:
    value = float(digits) if len(digits) <= MOST_DIGITS else math.inf
    if not math.isfinite(value):
        raise NotJson(reason="a number is too large or too long")
    return value


def _constant(word: str) -> Any:
    raise NotJson(reason=f"{word} is no number in JSON")


def _storable(value: Any) -> Any:
    """A copy whose strings PostgreSQL takes. Recursive: the depth was bounded before."""
    if isinstance(value, str):
        return _UNSTORABLE.sub(lambda match: _NUL if match[0] == "\x00" else _SURROGATE, value)
    if isinstance(value, dict):
        return {_storable(name): _storable(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_storable(one) for one in value]
    return value


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            yield str(value)
        return
    for one in value:
        yield from _leaves(one)


PARSED_BYTES: Final = 1 << 20  # what is parsed for a page: some ten milliseconds
SHOWN_BYTES: Final = 50_000  # of a body that is shown as it came
# What a text may hold besides what can be printed. NUL is shown by its symbol: no page takes the character itself.
_NUL_SHOWN: Final = {0: "\N{SYMBOL FOR NULL}"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """`document` is what the JSON says (`is_json`; it was `altered` where a string could not be shown as it is);
    `text` the bytes as text, those that are none as `\\xff`. `reason` says why it is no JSON."""

    is_json: bool
    document: Any
    altered: bool
    reason: str
    text: str
    is_cut: bool


def show(body: bytes, *, size: int, content_type: str) -> Shown:
    """What to show of a body of which these are the first bytes."""
    reason = f"it is larger than {PARSED_BYTES} bytes" if size > len(body) else ""
    document, altered = None, False
    if not reason:
        try:
            parsed = parse(body, content_type=content_type)
            document, altered = parsed.document, parsed.is_altered
        except NotJson as refusal:
            reason = refusal.reason
    return Shown(
        is_json=not reason,
        document=document,
        altered=altered,
        reason=reason,
        text=body[:SHOWN_BYTES].decode(errors="backslashreplace").translate(_NUL_SHOWN),
        is_cut=size > SHOWN_BYTES,
    )
