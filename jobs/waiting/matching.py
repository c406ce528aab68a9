"""The event stream of all jobs that match. What changed is read once for all streams of this process."""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from jobs.domain import changes
from jobs.domain.changes import Wanted
from jobs.protocol import jobs as protocol
from jobs.queries import pages as queries
from jobs.queries.pages import MOST_READ, Span
from jobs.waiting.requests import within
from live import RECONNECTED, hub
from live.hub import Subscription
from postgres import clock, connections

log = logging.getLogger(__name__)
READ_EVERY_S: Final = 0.2
_AT_REST_S: Final = 15.0  # so often the clock is read where nothing happens
MOST_UNREAD: Final = 20_000  # changes of the farm that wait to be read
MOST_UNSENT: Final = 1_000  # jobs that one slow reader holds in memory
_TOPICS: Final = ("job:*", "new:*")

Documents = Mapping[int, dict[str, Any]]  # jobs as lists show them, by id


@dataclass(eq=False, slots=True)
class Stream:
    """What one stream has yet to send: of each job the latest. It `is_over` where it may have missed something: its
    client comes back and is sent what that was."""

    wanted: Wanted
    is_over: bool = False
    _unsent: dict[int, dict[str, Any]] = field(default_factory=dict)
    _until: datetime | None = None
    _is_held: bool = False
    _wakeup: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, documents: Documents, *, until: datetime | None) -> None:
        """Take the jobs as they stand; with that all is sent that happened `until` then. None: more is to come."""
        self._until = until or self._until
        for job_id, document in documents.items():
            self._unsent.pop(job_id, None)
            self._unsent[job_id] = document
        if len(self._unsent) > MOST_UNSENT:
            self.end()
        if documents:
            self._wakeup.set()

    def end(self) -> None:
        self.is_over = True
        self._wakeup.set()

    def hold(self) -> None:
        """Give nothing out until `let_go`."""
        self._is_held = True

    def let_go(self) -> None:
        self._is_held = False
        self._wakeup.set()

    async def take(self) -> Collection[dict[str, Any]]:
        """Wait for jobs that changed, and take all; none when it is over."""
        while not self.is_over and (self._is_held or not self._unsent):
            self._wakeup.clear()
            await self._wakeup.wait()
        taken, self._unsent = self._unsent, {}
        return () if self.is_over else taken.values()

    @property
    def position(self) -> str:
        """The id of an event that is sent now; empty while it is not known how far the stream is."""
        return "" if self._until is None else changes.event_id(self._until)


class Changes:
    """Reads the jobs that changed, as long as there are streams. Of one event loop."""

    def __init__(self) -> None:
        self._streams: set[Stream] = set()
        self._job_ids: dict[int, None] = {}
        self._spans: list[Span] = []
        self._touched = asyncio.Event()
        self._subscription: Subscription | None = None
        self._task: asyncio.Task[None] | None = None

    async def open(self, wanted: Wanted) -> Stream:
        """A stream that misses nothing from now on."""
        here = hub.current()
        await here.ready()
        if self._subscription is None:
            self._subscription = here.watch_topics(_TOPICS, self._touch)
            self._task = asyncio.create_task(self._read_for_ever(), name="jobs: changes")
        stream = Stream(wanted)
        self._streams.add(stream)
        return stream

    def close(self, stream: Stream) -> None:
        self._streams.discard(stream)
        if not self._streams and self._subscription is not None and self._task is not None:
            self._subscription.close()
            self._task.cancel()
            self._subscription = self._task = None
            self._forget()

    def _touch(self, topics: Iterable[str]) -> None:
        for topic in topics:
            kind, _, which = topic.partition(":")
            if topic == RECONNECTED:
                self._end_all()
            elif kind == "job":
                self._job_ids[int(which)] = None
            else:
                first, _, last = which.partition("-")
                self._spans.append((int(first), int(last or first)))
        if len(self._job_ids) + len(self._spans) > MOST_UNREAD:
            self._end_all()
        self._touched.set()

    def _end_all(self) -> None:
        """Something was missed: who comes back is sent what."""
        self._forget()
        for stream in self._streams:
            stream.end()

    def _forget(self) -> None:
        self._job_ids.clear()
        self._spans.clear()

    async def _read_for_ever(self) -> None:
        while True:
            await within(_AT_REST_S, self._touched)  # that nothing happened moves all streams on as well
            self._touched.clear()
            try:
                await self._read()
            except Exception:  # of a database that is away, say
                log.exception("What changed could not be read: the event streams of many jobs end, and begin again")
                self._end_all()
            await asyncio.sleep(READ_EVERY_S)

    async def _read(self) -> None:
        ids, spans = list(self._job_ids)[:MOST_READ], self._taken_spans()
        for job_id in ids:
            del self._job_ids[job_id]
        streams, is_behind = list(self._streams), bool(self._job_ids or self._spans)
        now, rows, documents = await connections.run(_read, ids, spans, [stream.wanted for stream in streams])
        if is_behind:
            self._touched.set()
        for stream in streams:
            mine = {row.pk: documents[row.pk] for row in rows if row.pk in documents and stream.wanted.fits(row)}
            stream.put(mine, until=None if is_behind else now)

    def _taken_spans(self) -> list[Span]:
        """The first of the spans of new ids, of no more jobs than one statement looks at."""
        room, taken = MOST_READ - min(len(self._job_ids), MOST_READ), list[Span]()
        while self._spans and room > 0:
            first, last = self._spans.pop(0)
            until = min(last, first + room - 1)
            taken.append((first, until))
            room -= until - first + 1
            if until < last:
                self._spans.insert(0, (until + 1, last))
        return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """What a stream sends first. `is_whole` is false where what its client missed is too much, or too long ago."""

    documents: Documents
    at: datetime
    is_whole: bool = True


def beginning(wanted: Wanted, last_event_id: str) -> Beginning:
    """The newest jobs for who is new; for who comes back those that may have changed."""
    now = clock.now()
    if not last_event_id:
        return Beginning(documents=_documents(queries.newest(wanted)), at=now)
    since = changes.since(last_event_id, now=now)
    missed = None if since is None else queries.missed(wanted, since=since)
    if missed is None or not missed.is_all:
        return Beginning(documents={}, at=now, is_whole=False)
    return Beginning(documents=_documents(missed.job_ids), at=now)


def _read(
    job_ids: Collection[int], spans: list[Span], wanted: Collection[Wanted]
) -> tuple[datetime, list[Any], Documents]:
    now = clock.now()
    rows = queries.among(job_ids, spans, wanted) if job_ids or spans else []
    return now, rows, _documents([row.pk for row in rows])


def _documents(job_ids: Collection[int]) -> Documents:
    return {job.id: job.model_dump(mode="json") for job in protocol.listed(job_ids)}
