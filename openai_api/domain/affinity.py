"""Which worker a call prefers: the one whose model server has its beginning in its cache (docs/adr/0141).

A conversation is known again by a key that its caller gives, or by the hash of all messages of an earlier call, which
the next one begins with.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final
from uuid import UUID

from openai_api.domain import STREAMED, Call

MARKS: Final = (4_000, 16_000, 64_000)  # characters up to which a prompt that is one text is compared
LEAST: Final = 1_000  # characters that are worth it
LATEST: Final = 16  # messages that an earlier call of a conversation may lack, and one
MOST_ABOVE: Final = 3  # calls by which a worker may be busier than its peers are on average
_HEAD: Final = ("tools", "system", "instructions")
_READ: Final = 200_000  # bytes of messages that were cut out of a body
# What differs from call to call, and is no part of the prompt.
_PASSING: Final = re.compile(r', "cache_control": \{[^{}]*\}|(?<!\\)"x-anthropic-billing-header[^"]*"')
_DECODER: Final = json.JSONDecoder()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallKeys:
    """Keys that earlier calls of a conversation may have left, the longest beginning first, and the one that this call
    leaves itself."""

    lookup: Sequence[UUID] = ()
    stored: UUID | None = None


def keys(call: Call, *, secret: bytes) -> CallKeys:
    """The keys of a call; none of another person's are the same, since each has a `secret`. Of one that no row can hold
    anything will do: its job is refused."""
    digest = hashlib.blake2b(json.dumps([call.path, call.model]).encode(), digest_size=16, key=secret)
    by_caller = call.body.get("prompt_cache_key")
    if call.path not in STREAMED or call.file is not None:
        return CallKeys()
    if isinstance(by_caller, str) and by_caller:
        digest.update(by_caller.encode(errors="replace"))
        only = UUID(bytes=digest.digest())
        return CallKeys(lookup=[only], stored=only)
    size, known = 0, list[UUID]()
    try:
        texts = [json.dumps([call.body.get(name) for name in _HEAD]), *_messages(call.body)]
    except RecursionError:
        return CallKeys()
    for text in texts:
        digest.update(_PASSING.sub("", text).encode(errors="replace"))
        size += len(text)
        known += [UUID(bytes=digest.digest())] if size >= LEAST else []
    lookup = known[: -LATEST - 1 : -1]
    return CallKeys(lookup=lookup, stored=lookup[0] if lookup else None)


def is_too_busy(worker: int, *, jobs: Mapping[int, int], slots: Mapping[int, int | None]) -> bool:
    """Whether this one of the workers with `slots` has none free, or has so many more `jobs` than its peers."""
    peers = [jobs.get(peer, 0) for peer in slots if peer != worker]
    is_above = bool(peers) and jobs.get(worker, 0) > sum(peers) / len(peers) + MOST_ABOVE
    return is_above or not has_room(worker, jobs=jobs, slots=slots)


def has_room(worker: int, *, jobs: Mapping[int, int], slots: Mapping[int, int | None]) -> bool:
    most = slots[worker]
    return most is None or jobs.get(worker, 0) < most


def _messages(body: Mapping[str, Any]) -> Iterator[str]:
    """The messages of a call in order, as texts; of a prompt that is one text the whole pieces between MARKS."""
    name = next((name for name in ("messages", "input", "prompt") if body.get(name)), "")
    value = body.get(name)
    part = next((part for part in getattr(body, "parts", ()) if part.path == (name,)), None)
    if part is not None:
        value = _first_of(part.open().read(_READ).decode(errors="ignore"))
    if isinstance(value, str):
        value = [value[begin:end] for begin, end in pairwise((0, *MARKS)) if len(value) >= end]
    yield from map(json.dumps, value if isinstance(value, list) else ())


def _first_of(text: str) -> Any:
    """The first entries of the list that this text begins, or of a text its beginning."""
    if not text.startswith("["):
        return text[1:]
    entries: list[Any] = []
    place = 1
    while match := re.compile(r"[\s,]*(?=[^\s,\]])").match(text, place):
        try:
            entry, place = _DECODER.raw_decode(text, match.end())
        except ValueError:
            break
        entries.append(entry)
    return entries
