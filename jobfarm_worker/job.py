"""The job as a handler sees it. One interface for async and for plain functions."""

import asyncio
import json
import math
import os
import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, NoReturn

from jobfarm_client.wire import dumps
from jobfarm_worker.asking import Asking, Child
from jobfarm_worker.errors import JobStopped
from jobfarm_worker.outbox import File, Outbox, Progress
from jobfarm_worker.protocol import ClaimedJob, Wait, storable

FILE_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")  # what every farm stores
CHECKPOINT_BYTES = 64_000


class Job:
    """One attempt of one job.

    All methods but `flush`, `room`, `submit`, `input`, `save_input` and `until_stopping` are plain, return at once and
    may be called from any thread: they leave their message in a box that another task empties. After the job was
    canceled, its lease was lost or the worker gave it back, they raise JobStopped; let it pass, nobody waits for the
    result any more.
    """

    def __init__(
        self,
        claimed: ClaimedJob,
        *,
        outbox: Outbox,
        confirmed: Callable[[], Awaitable[None]],
        stopping: asyncio.Event | None = None,
        asking: Asking | None = None,
    ) -> None:
        """`confirmed` waits until the farm has everything that is in the outbox; `stopping` is set when the worker is
        to end; `asking` fetches files and submits jobs."""
        self.id = claimed.id
        self.kind = claimed.kind
        self.queue = claimed.queue
        self.payload: Any = claimed.payload
        self.attempt = claimed.attempt  # counts from 1; what was given back or lost unseen does not count
        self.fence = claimed.fence  # only grows, also for what was given back or lost; 0: the farm does not say
        self.max_attempts = claimed.max_attempts  # how many there may be; None when the farm does not say
        self.traceparent = claimed.traceparent  # the trace it was submitted in, to pass on to what you call
        self.inputs = {file.name: file for file in claimed.files if not file.at}  # each with its size, sha256 and type
        self.is_in_parts = len(self.inputs) < len(claimed.files)  # until the handler begins
        self.after = claimed.after  # what it comes after in its flow: each with its id, name, kind, status and result
        self.last_checkpoint: Any = claimed.checkpoint  # of an earlier attempt, until this one keeps its own
        self.signal = claimed.signal  # what came of its last wait, for a signal or for so long; else None
        self._outbox = outbox
        self._stopping = stopping or asyncio.Event()
        self._asking = asking
        self._submitted = claimed.children  # at this position comes the next of its own
        self._confirmed = confirmed
        self._loop_thread = threading.get_ident()

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.kind} attempt {self.attempt}>"

    def progress(self, fraction: float | None = None, detail: str | None = None) -> None:
        """Say how far the job is, from 0 to 1, and what it is doing.

        Call it as often as you like: the latest wins, and at most five a second are sent. A report of the job's first
        50 ms is sent with the next one, and not at all if the job ends within them. Values a little outside of 0..1 are
        clamped; raises ValueError for NaN and infinities, JobStopped when stopped.
        """
        if fraction is not None:
            if not math.isfinite(fraction):
                raise ValueError(f"Progress is a number from 0 to 1, not {fraction}.")
            fraction = min(1.0, max(0.0, float(fraction)))
        self._outbox.report(Progress(fraction=fraction, detail=None if detail is None else storable(detail)))

    def write(self, text: str) -> None:
        """Append text to the job's output.

        It is sent when the unsent text holds one of `\\n . ? ! ,` or is longer than 100 characters, after one
        second in any case (also while a plain function blocks), and at the end. While more than a million characters
        are unsent, a plain function waits here, and an async one wherever it awaits next. Raises JobStopped when
        stopped.
        """
        if not isinstance(text, str):
            raise TypeError(f"Output is text; got {type(text).__name__}.")
        self._outbox.write(storable(text), may_block=threading.get_ident() != self._loop_thread)

    async def room(self) -> None:
        """Wait while more than a million characters are unsent. Only tasks that an async handler started have to: the
        handler itself does wherever it awaits."""
        await self._outbox.until_room()
        self._outbox.check()

    def file(self, name: str, data: bytes) -> None:
        """Store a result file; the same name again replaces it. The job succeeds only after it has arrived.

        A name is made of letters, digits, dots, dashes and underscores, begins with no dot and has at most
        100 characters; raises ValueError for any other, JobStopped when stopped.
        """
        if not FILE_NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a plain file name: letters, digits, . - and _, at most 100 of them.")
        self._outbox.put(File(name=name, data=bytes(data)))

    def checkpoint(self, value: Any) -> None:
        """Keep what the job has found out so far: anything JSON of at most 64,000 bytes, in place of the last; None:
        keep nothing.

        If this attempt ends without success, however that comes, the next one finds it in `last_checkpoint` and goes on
        from there: what was done after the last checkpoint that arrived is done again. Call it as often as you like:
        the latest wins, and at most five a second are sent; `flush` waits until it has arrived. Raises ValueError for
        what is not JSON or too long, JobStopped when stopped.
        """
        text = _checkpoint(value)
        count = f', "children": {self._submitted}' if self._submitted and value is not None else ""
        self._outbox.keep(f'{{"value": {text}{count}}}')
        self.last_checkpoint = json.loads(text)

    def release(self) -> NoReturn:
        """Give the job back with its last checkpoint, by raising JobStopped: it waits again at once, for any worker,
        and this counts as no attempt. For a handler that meets `stopping`."""
        self._outbox.is_released = True
        raise JobStopped

    def submit(self, kind: str, payload: Any, **options: Any) -> Any:
        """Submit a job of its own: `child = await job.submit("work", {"part": 1})`; a plain function calls it without
        `await`. The child has its `id`, and the owner, group, token, trace and flow of this job.

        Exactly once, whatever becomes of this attempt: a later one submits nothing where an earlier one has submitted,
        and gets the same child. For that it submits the same jobs in the same order, from its last checkpoint on, which
        keeps how many there were by then. `options` are `queue`, `priority`, `run_at`, `concurrency_key`, `requires`,
        `prefers` and `tags` as of any submit, and `outlives=True` for one that goes on when this job is canceled.

        Raises Failed where the farm takes it not: also where an earlier attempt has submitted another kind or payload
        there. JobStopped when stopped.
        """
        position, self._submitted = self._submitted, self._submitted + 1
        moments = {name: value.isoformat() for name, value in options.items() if isinstance(value, datetime)}
        return self._held.submit(position, {"kind": kind, "payload": payload, **options, **moments})

    @staticmethod
    def wait_for(
        children: Iterable[Child] | None = None,
        *,
        signal: str | None = None,
        signal_key: str | None = None,
        timeout: float | None = None,
        schema: Mapping[str, Any] | None = None,
    ) -> Wait:
        """`return job.wait_for(children)` ends this attempt as suspended: it does not count, and nothing is held.

        Once all of them have ended, however they did, the job is given to any worker that may take it, from its last
        checkpoint on: `job.after` has their results. `wait_for(signal="approved")` waits for that instead: `job.signal`
        has its `name` and `data`; people send it by a form on the job's page, with the fields of a JSON `schema`, rules
        for webhooks to the `signal_key` that it waits with. After `timeout` seconds either goes on without:
        `job.signal.timed_out`.
        """
        waits = {"signal": signal, "signal_key": signal_key, "timeout": timeout, "schema": schema}
        named = {} if children is None else {"children": [child.id for child in children]}
        return Wait(fields=named | {name: value for name, value in waits.items() if value is not None})

    @staticmethod
    def sleep(until: datetime) -> Wait:
        """`return job.sleep(until)` ends this attempt as suspended until this moment, which has a time zone."""
        if until.tzinfo is None:
            raise ValueError("The moment needs a time zone.")
        return Wait(fields={"until": until.isoformat()})

    def input(self, name: str) -> Any:
        """The bytes of an input file: `await job.input("audio")`; in a plain function `job.input("audio")` waits.

        Memory holds all of it: for more than that, `save_input`. `job.inputs` says which there are. Raises Failed for
        one that this job has not, or that does not arrive as it was uploaded; JobStopped when stopped.
        """
        return self._held.read(name)

    def save_input(self, name: str, path: str | os.PathLike[str]) -> Any:
        """Write an input file to `path` in pieces: `await job.save_input("audio", path)`; in a plain function
        `job.save_input("audio", path)` waits. Gives the path.

        A download that was cut goes on where it was cut. The file has its name once its SHA-256 was checked. Raises as
        `input`, and OSError.
        """
        return self._held.save(name, path)

    def whole_payload(self) -> Any:
        """The payload with its long parts, which are fetched; as `input`. What runs handlers calls it."""
        return self._held.whole()

    @property
    def _held(self) -> Asking:
        assert self._asking is not None, "this job is held by no worker"
        return self._asking

    @property
    def stopped(self) -> bool:
        """Whether the job is no longer ours. Loops of plain functions look at it now and then."""
        return self._outbox.stopped

    @property
    def stopping(self) -> bool:
        """Whether the worker is to end: after its grace the job is given back with its last checkpoint. A handler that
        takes longer than that keeps one and calls `release`."""
        return self._stopping.is_set()

    async def until_stopping(self) -> None:
        """Wait until the worker is to end (async handlers)."""
        await self._stopping.wait()

    def check(self) -> None:
        """Raise JobStopped if the job is no longer ours."""
        self._outbox.check()

    def pause(self, seconds: float) -> None:
        """Wait in a plain function; raises JobStopped as soon as the job is stopped.

        An async handler says `await asyncio.sleep(...)` instead (it is canceled when the job is stopped).
        """
        if threading.get_ident() == self._loop_thread:
            raise RuntimeError("job.pause() would stop the whole worker here; use `await asyncio.sleep(...)`.")
        self._outbox.pause(seconds)

    async def flush(self) -> None:
        """Wait until the farm has confirmed all text, due or not, every file and the checkpoint (async handlers).

        Raises JobStopped when stopped, Failed when the farm refused a piece for good.
        """
        self._outbox.check()
        self._outbox.flush()
        await self._confirmed()
        await asyncio.sleep(0)  # a stop that arrived meanwhile cancels the handler here
        self._outbox.check()


def _checkpoint(value: Any) -> str:
    try:
        text = dumps(value)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"A checkpoint has to be JSON: {error}") from error
    if size > CHECKPOINT_BYTES:
        raise ValueError(
            f"A checkpoint has at most {CHECKPOINT_BYTES:,} bytes, not {size:,}: keep what is long in a file."
        )
    return text
