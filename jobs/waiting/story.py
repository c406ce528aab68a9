"""From the hub's messages to server-sent events, each with an id that says how far the client is."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Self

from jobs.domain import states
from jobs.protocol.jobs import as_view
from live.rendering import Page
from live.send_queue import Message

# Fence, number of the next piece of output, version of the job: what an event's id says.
_EVENT_ID: Final = re.compile(r"([0-9]{1,18})\.([0-9]{1,9})\.([0-9a-f]{0,64})")
_SHORT: Final = 12  # characters of a version in the id of a stream of many jobs, which has one of each

Step = tuple[str, str]  # the name of an event, and its data: an object as JSON


class Story:
    """How far one client is in a job's events."""

    def __init__(self, *, fence: int = 0, next_seq: int = 0, version: str = "", is_view: bool = False) -> None:
        self._is_view = is_view
        self._fence = fence
        self._next_seq = next_seq
        self._version = version
        self._end: dict[str, Any] | None = None
        self.is_over = False

    @classmethod
    def resumed(cls, position: str, *, is_view: bool = False) -> Self:
        """Where the client at this position left off; the beginning for what is none of ours."""
        match = _EVENT_ID.fullmatch(position)
        if match is None:
            return cls(is_view=is_view)
        return cls(fence=int(match[1]), next_seq=int(match[2]), version=match[3], is_view=is_view)

    @property
    def cursor(self) -> str | None:
        """The last piece of output that was sent, as the stream `job-output` numbers it."""
        return f"{self._fence}:{self._next_seq - 1}" if self._fence else None

    def position(self, *, version_length: int | None = None) -> str:
        """How far it is, with so many characters of the job's version."""
        return f"{self._fence}.{self._next_seq}.{self._version[:version_length]}"

    def steps(self, messages: Sequence[Message]) -> Iterator[Step]:
        """The events that these messages make.

        The end is sent when all the output was, whatever came first.
        """
        for message in messages:
            yield from self._read(message)
        if self._end is not None and self._is_complete(self._end):
            self.is_over = True
            yield "end", json.dumps({"status": self._end["job"]["status"]})

    def _read(self, message: Message) -> Iterator[Step]:
        if message.page is not None:
            yield from self._output(message.page)
        elif message.kind == "data":
            yield from self._job(json.loads(message.encoded), version=message.seen)
        else:
            self.is_over = True

    def _output(self, page: Page) -> Iterator[Step]:
        for item, data in zip(page.items, page.data, strict=True):
            self._fence, self._next_seq = item.data["fence"], item.data["seq"] + 1
            yield "output", data

    def _job(self, state: dict[str, Any], *, version: str) -> Iterator[Step]:
        job = state["job"]
        self._end = state if job["status"] in states.ENDED else None
        is_seen = bool(self._version) and version.startswith(self._version)  # which may be cut
        self._version = version
        if not is_seen:
            yield "job", json.dumps(as_view(job) if self._is_view else job)

    def _is_complete(self, state: dict[str, Any]) -> bool:
        written = state["written"]
        return written == 0 or (self._fence, self._next_seq) >= (state["job"]["fence"], written)


class Stories:
    """How far one client is in the events of some jobs. Of several, each event names its job, and its id says how far
    all of them are: "7=1.3.8a0c,9=0.0."."""

    def __init__(
        self, job_ids: Sequence[int], *, last_event_id: str, are_named: bool, is_view: bool = False
    ) -> None:  # fmt: skip
        positions = _positions(last_event_id) if are_named else {str(job_ids[0]): last_event_id}
        self._are_named = are_named
        self.of: Mapping[str, Story] = {
            str(job_id): Story.resumed(positions.get(str(job_id), ""), is_view=is_view) for job_id in job_ids
        }

    @property
    def are_over(self) -> bool:
        return all(story.is_over for story in self.of.values())

    def events(self, messages: Sequence[Message]) -> Iterator[bytes]:
        """The events that these messages make; the watches are called by the ids of the jobs."""
        by_job: dict[str, list[Message]] = {}
        for message in messages:
            by_job.setdefault(message.watch_id, []).append(message)
        for job_id, mine in by_job.items():
            for name, data in self.of[job_id].steps(mine) if not self.of[job_id].is_over else ():
                named = f'{{"job": {job_id}, {data[1:]}' if self._are_named else data
                yield f"event: {name}\nid: {self._event_id()}\ndata: {named}\n\n".encode()

    def _event_id(self) -> str:
        if not self._are_named:
            [story] = self.of.values()
            return story.position()
        return ",".join(f"{job_id}={story.position(version_length=_SHORT)}" for job_id, story in self.of.items())


def _positions(event_id: str) -> dict[str, str]:
    """What the id of an event of several jobs says of each."""
    pairs = (each.partition("=") for each in event_id.split(","))
    return {job_id: position for job_id, _, position in pairs}
