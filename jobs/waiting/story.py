"""From the hub's messages to server-sent events, each with an id that says how far the client is."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Self

from jobs.domain import states
from live.send_queue import Message

# Fence, number of the next piece of output, version of the job: what an event's id says.
_EVENT_ID: Final = re.compile(r"([0-9]{1,18})\.([0-9]{1,9})\.([0-9a-f]{0,64})")


class Story:
    """How far one client is in a job's events."""

    def __init__(self, *, fence: int = 0, next_seq: int = 0, version: str = "") -> None:
        self._fence = fence
        self._next_seq = next_seq
        self._version = version
        self._end: dict[str, Any] | None = None
        self.is_over = False

    @classmethod
    def resumed(cls, last_event_id: str) -> Self:
        """Where the client of this `Last-Event-ID` left off; the beginning for what is no id of ours."""
        match = _EVENT_ID.fullmatch(last_event_id)
        return cls(fence=int(match[1]), next_seq=int(match[2]), version=match[3]) if match else cls()

    @property
    def cursor(self) -> str | None:
        """The last piece of output that was sent, as the stream `job-output` numbers it."""
        return f"{self._fence}:{self._next_seq - 1}" if self._fence else None

    def events(self, messages: Sequence[Message]) -> Iterator[bytes]:
        """The events that these messages make.

        The end is sent when all the output was, whatever came first.
        """
        for message in messages:
            yield from self._encode(message)
        if self._end is not None and self._is_complete(self._end):
            self.is_over = True
            yield self._event("end", {"status": self._end["job"]["status"]})

    def _encode(self, message: Message) -> Iterator[bytes]:
        if message.kind == "items":
            yield from self._output(json.loads(message.encoded))
        elif message.kind == "data":
            yield from self._job(json.loads(message.encoded), version=message.seen)
        else:
            self.is_over = True

    def _output(self, items: Iterable[dict[str, Any]]) -> Iterator[bytes]:
        for item in items:
            piece = item["data"]
            self._fence, self._next_seq = piece["fence"], piece["seq"] + 1
            yield self._event("output", piece)

    def _job(self, state: dict[str, Any], *, version: str) -> Iterator[bytes]:
        job = state["job"]
        self._end = state if job["status"] in states.ENDED else None
        if version != self._version:
            self._version = version
            yield self._event("job", job)

    def _is_complete(self, state: dict[str, Any]) -> bool:
        written = state["written"]
        return written == 0 or (self._fence, self._next_seq) >= (state["job"]["fence"], written)

    def _event(self, name: str, data: Any) -> bytes:
        event_id = f"{self._fence}.{self._next_seq}.{self._version}"
        return f"event: {name}\nid: {event_id}\ndata: {json.dumps(data)}\n\n".encode()
