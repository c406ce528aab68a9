"""Pieces of output; and output whose lines are for programs, as a text for people."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from jobs.domain.leases import Lease
from jobs.domain.states import Status
from live.registry import Item

LineReader = Callable[[str], str]
"""What a line of output, without its end, adds to the text; it raises nothing, whatever the line."""


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
