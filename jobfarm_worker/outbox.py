"""What a handler has written and kept, and the farm has not confirmed yet.

Handlers fill it from any thread, the reporter empties it.
"""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from jobfarm_worker.errors import JobStopped

FLUSH_AT = frozenset("\n.?!,")
FLUSH_OVER = 100  # characters
FLUSH_AFTER_S = 1.0
PIECE = 65_536  # characters in one output call: at most 256 KB, far from the farm's limit on a body
ROOM = 1_000_000  # unsent characters after which a handler waits for the network


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a job is (0 to 1, or nothing new to say) and what it is doing."""

    fraction: float | None = None
    detail: str | None = None

    def over(self, older: "Progress") -> "Progress":
        """This progress; where it is empty, the one before."""
        return Progress(
            fraction=older.fraction if self.fraction is None else self.fraction,
            detail=older.detail if self.detail is None else self.detail,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    name: str
    data: bytes


def is_due(unsent: str) -> bool:
    """Whether unsent text is to be sent: it holds one of `\\n . ? ! ,` or is longer than 100 characters."""
    return len(unsent) > FLUSH_OVER or not FLUSH_AT.isdisjoint(unsent)


class Outbox:
    """Text, files, and the latest checkpoint and progress of one attempt; every method may be called from any thread.

    `wake` is called, outside of the lock, whenever there is something to send. Text costs what it is long, however much
    of it lies here: pieces are queued as they were written, and joined as they leave.
    """

    def __init__(self, *, wake: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._wake = wake
        self._clock = clock
        self._changed = threading.Condition(threading.Lock())
        self._young = ""  # written, not due by the flush rule
        self._young_since_s = 0.0
        self._due: deque[str] = deque()  # pieces, none longer than PIECE
        self._due_size = 0  # characters
        self._waiting: list[asyncio.Future[None]] = []  # for room
        self._files: dict[str, File] = {}
        self._progress: Progress | None = None
        self.latest = Progress()
        self.stopped = False
        self.checkpoint: str | None = None
        """The latest that the farm has not confirmed, as JSON."""
        self.is_released = False
        """Whether the handler gives its job back."""

    def check(self) -> None:
        if self.stopped:
            raise JobStopped

    @property
    def is_full(self) -> bool:
        """Whether more than a million characters are unsent, of a job that is ours."""
        return self._due_size >= ROOM and not self.stopped

    def write(self, text: str, *, may_block: bool) -> None:
        """Add text to the output. `may_block`: wait while the box is full."""
        with self._changed:
            self._changed.wait_for(lambda: not (may_block and self.is_full))
            self.check()
            is_first = bool(text) and not self._young
            if is_first:
                self._young_since_s = self._clock()
            self._young += text
            if is_due(self._young):
                self._make_due()
            elif not is_first:
                return
        self._wake()  # also for the first word of a text that is not due: its second begins

    @property
    def has_unsent(self) -> bool:
        """Whether there is text or a file that was not taken out yet, or a checkpoint that was not confirmed."""
        return bool(self._young or self._due or self._files or self.checkpoint)

    @property
    def has_due_text(self) -> bool:
        return bool(self._due)

    @property
    def has_files(self) -> bool:
        return bool(self._files)

    @property
    def due_in_s(self) -> float | None:
        """Seconds until the text that is not due becomes so by its age; None when there is none."""
        with self._changed:
            return self._young_since_s + FLUSH_AFTER_S - self._clock() if self._young else None

    def flush(self) -> None:
        with self._changed:
            self._make_due()
        self._wake()

    def _make_due(self) -> None:
        text, self._young = self._young, ""
        self._due_size += len(text)
        self._due.extend(text[start : start + PIECE] for start in range(0, len(text), PIECE))

    def report(self, progress: Progress) -> None:
        """Set the progress to send next; the latest wins, where it is silent the one before counts."""
        with self._changed:
            self.check()
            self._progress = progress.over(self._progress or progress)
            self.latest = progress.over(self.latest)
        self._wake()

    def put(self, file: File) -> None:
        """Queue a file; one of the same name that has not left yet is replaced."""
        with self._changed:
            self.check()
            self._files.pop(file.name, None)
            self._files[file.name] = file
        self._wake()

    def keep(self, checkpoint: str) -> None:
        """Let this be the checkpoint, in place of one that was not confirmed."""
        with self._changed:
            self.check()
            self.checkpoint = checkpoint
        self._wake()

    def kept(self, checkpoint: str) -> None:
        """The farm has this one. A newer one stays here."""
        with self._changed:
            if self.checkpoint is checkpoint:
                self.checkpoint = None

    def take_text(self) -> str:
        """The next piece of due text, taken out of the box; empty when there is none."""
        pieces: list[str] = []
        size = 0
        with self._changed:
            while self._due and size + len(self._due[0]) <= PIECE:
                pieces.append(self._due.popleft())
                size += len(pieces[-1])
            self._due_size -= size
            self._changed.notify_all()
        self._let_go_on()
        return "".join(pieces)

    async def until_room(self) -> None:
        """Wait, on the loop, until the box is not full."""
        while self.is_full:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    def _let_go_on(self) -> None:
        """Wake who waits on the loop; they look again. Called there, as text is taken and jobs are stopped."""
        if not self.is_full:
            waiting, self._waiting = self._waiting, []
            for waiter in waiting:
                if not waiter.done():
                    waiter.set_result(None)

    def take_file(self) -> File | None:
        """The file that waited longest, taken out of the box."""
        with self._changed:
            name = next(iter(self._files), None)
            return None if name is None else self._files.pop(name)

    @property
    def has_progress(self) -> bool:
        return self._progress is not None

    def take_progress(self) -> Progress | None:
        """The progress that was not sent yet, taken out of the box."""
        with self._changed:
            progress, self._progress = self._progress, None
        return progress

    def give_back(self, progress: Progress) -> None:
        """Return progress that could not be sent, unless newer came meanwhile."""
        with self._changed:
            self._progress = (self._progress or progress).over(progress)

    def pause(self, seconds: float) -> None:
        """Wait; raises JobStopped as soon as the job is stopped."""
        with self._changed:
            self._changed.wait_for(lambda: self.stopped, timeout=seconds)
        self.check()

    def stop(self) -> None:
        """From now on every call of the handler raises JobStopped; whoever waits is woken."""
        with self._changed:
            self.stopped = True
            self._changed.notify_all()
        self._let_go_on()
