"""What jobs write, for people: pieces of output and what their lines say, which errors are the same, and two texts
compared."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Final

from jobs.domain.leases import Lease
from jobs.domain.states import Status
from live.registry import Item

LineReader = Callable[[str], str]
"""What a line of output, without its end, adds to the text; it raises nothing, whatever the line."""
_BEGINS: Final = "Traceback (most recent call last)"
_FRAME: Final = re.compile(r'  File "([^"]*)", line \d+')
_OF_THE_WORKER: Final = re.compile(
    r"[/\\](?:jobfarm_worker|asyncio|concurrent)[/\\]|[/\\]contextlib\.py$|[/\\]threading\.py$"
)
LONGEST_ERROR: Final = 300  # characters of an error that are compared
_VARYING: Final = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"  # a UUID
    r"|0x[0-9a-fA-F]+"  # an address
    r"|\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b"  # a hash
    r"|\d+(?:\.\d+)*"  # numbers, versions, times
)
MOST_LINES: Final = 400  # of each text, its last: 0.1 s at the worst
LONGEST_LINE: Final = 500  # characters
CONTEXT: Final = 3  # equal lines that are shown around a difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What a worker hands in of a job's output: piece number `seq` of the attempt, counted from 0."""

    job_id: int
    lease: Lease
    seq: int
    text: str

    @property
    def size(self) -> int:
        """Bytes. Raises UnicodeEncodeError for half of a surrogate pair."""
        return len(self.text.encode())


def job_status(status: str, fence: int, written: int = 0) -> dict[str, Any]:
    """How a job stands, which claim it is at, and how many pieces that one wrote: the answer of `job-status`."""
    return {"status": status, "fence": fence, "written": written}


def moment(status: str, fence: int, written: int) -> str:  # noqa: ARG001 (of a `job_status`)
    """When a job that a worker has or had stood so: of two moments the later one is the greater text."""
    return f"{fence:019}.{int(status != Status.IN_PROGRESS)}"


def item(fence: int, seq: int, text: str) -> Item:
    """A piece of output as the streams of a job have it. Right before it stands the piece before it, or nothing."""
    follows = {f"{fence}:{seq - 1}", *([None] if seq == 0 else [])}
    data = {"fence": fence, "seq": seq, "text": text}
    return Item(cursor=f"{fence}:{seq}", data=data, follows=follows)


def texts(pieces: Iterable[tuple[int, str]], *, read: LineReader, before: tuple[int, str]) -> Iterator[str]:
    """What each of these pieces of output (the number of its claim, and what it holds) adds to the text.

    A line counts in the piece that ends it. `before` is the piece before the first: its last line may end in that. One
    that begins still earlier is left out, so what is read of a line is at most twice a piece.
    """
    claim, partial = before[0], before[1].rpartition("\n")[2]
    for fence, text in pieces:
        partial = partial if fence == claim else ""
        *lines, partial = (partial + text).split("\n")
        claim = fence
        yield "".join(map(read, lines))


def error_pattern(error: str) -> str:
    """Return the last line of `error` with `…` for ids, addresses, hashes and numbers; empty for an empty one."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return re.sub(r"\s+", " ", _VARYING.sub("…", lines[-1]))[:LONGEST_ERROR] if lines else ""


def own_frames(error: str) -> str:
    """A traceback that begins with the handler's own frames: those of the worker, and of Python's library before and
    between them, are left out. What has no others stays as it is."""
    kept: list[str] = []
    is_leading = is_left_out = False
    for line in error.splitlines():
        frame = _FRAME.match(line)
        if line.startswith(_BEGINS):
            is_leading, is_left_out = True, False
        elif frame:
            is_leading = is_left_out = is_leading and bool(_OF_THE_WORKER.search(frame[1]))
        elif not line.startswith("    "):
            is_leading = is_left_out = False
        if not is_left_out:
            kept.append(line)
    return "\n".join(kept) if any(map(_FRAME.match, kept)) else error


def error_key(kind: str, status: str, shape: str) -> str:
    """Return the name of a group in an address."""
    return hashlib.sha256("\0".join((kind, status, shape)).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of each text beside its counterpart; None where the other text alone has one. A gap has neither."""

    left: str | None
    right: str | None
    is_same: bool = False

    @property
    def is_gap(self) -> bool:
        return self.left is None and self.right is None


_GAP: Final = Row(left=None, right=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What two texts have in common and what not. `is_cut`: one of them had earlier lines or longer ones."""

    rows: list[Row]
    is_same: bool
    is_cut: bool


def compare(left: str, right: str) -> Comparison:
    """The differences of two texts with a few equal lines around each; of long texts of their last lines."""
    lefts, rights = left.splitlines(), right.splitlines()
    old, new = _bounded(lefts), _bounded(rights)
    rows = list(_rows(old, new))
    return Comparison(rows=rows, is_same=left == right, is_cut=(old, new) != (lefts, rights))


def _bounded(lines: list[str]) -> list[str]:
    return [line[:LONGEST_LINE] for line in lines[-MOST_LINES:]]


def _rows(old: list[str], new: list[str]) -> Iterator[Row]:
    for number, group in enumerate(SequenceMatcher(None, old, new).get_grouped_opcodes(CONTEXT)):
        if number:
            yield _GAP
        for tag, i1, i2, j1, j2 in group:
            for pair in zip_longest(old[i1:i2], new[j1:j2]):
                yield Row(left=pair[0], right=pair[1], is_same=tag == "equal")
