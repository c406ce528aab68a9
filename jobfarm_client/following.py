"""Follow a job to its end: by its event stream, resumed where it broke off; where no stream comes through, by asking
now and then."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from jobfarm_client.effects import Emit, Flow, Open, Pause, Read, Request, Send
from jobfarm_client.errors import FarmError, Unreachable, WaitTimeout
from jobfarm_client.models import ENDED, Event
from jobfarm_client.paths import JOBS, of_job
from jobfarm_client.retrying import Policy
from jobfarm_client.sse import Parser

SILENCE_S = 20.0  # a farm says something every 15 s, so this is a connection that died
MUTE_STREAMS = 2  # opened in a row, and nothing came by them: somebody keeps the stream back
FIRST_POLL_S, LONGEST_POLL_S = 0.5, 5.0
_NEAR = 0.75  # of the time that a read may take: with less left the stream is opened anew, with less time


class Following:
    """One caller's way through a job's events."""

    def __init__(self, job_id: int, policy: Policy, *, last_event_id: str, timeout_s: float | None) -> None:
        """`last_event_id`: behind which event to begin. `timeout_s`: for all of it; None: as long as it takes."""
        self._job_id = job_id
        self._late = f"Job {job_id} has not ended in time. It goes on."
        self._patience = policy.patience()
        self._rng = policy.rng
        self._last_event_id = last_event_id
        self._until = math.inf if timeout_s is None else time.monotonic() + timeout_s
        self._mute_streams = 0
        self._is_over = False
        self._poll_s = FIRST_POLL_S
        self._shown: dict[str, Any] = {}  # the job as it was polled last

    def events(self) -> Flow[None]:
        """Emit every event once, `end` last.

        Raises WaitTimeout, and what the client's calls raise once the farm has been away for too long.
        """
        while not self._is_over:
            try:
                yield from self._polled() if self._mute_streams >= MUTE_STREAMS else self._streamed()
                continue
            except FarmError as error:
                pause_s = self._pause_s(error)
            yield Pause(pause_s)

    def _pause_s(self, error: FarmError) -> float:
        """How long to wait after this; raises it where it is for good."""
        if isinstance(error, WaitTimeout):
            raise error
        left_s = self._left_s()
        return 0.0 if self._mute_streams == MUTE_STREAMS else min(self._patience.pause_s(error), left_s)

    def _left_s(self) -> float:
        """Seconds until the caller's time is over; raises WaitTimeout when it is."""
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise WaitTimeout(self._late)
        return left_s

    def _streamed(self) -> Flow[None]:
        """Emit what one stream brings; returns when it is to be opened anew. Raises Unreachable when it broke."""
        read_s = min(SILENCE_S, self._left_s())
        headers = {"Last-Event-ID": self._last_event_id} if self._last_event_id else {}
        request = self._stream(headers, read_s)
        parser = Parser()
        self._mute_streams += 1  # until something comes
        yield from self._opened(request)
        while (text := (yield Read())) is not None:
            self._mute_streams = 0
            self._patience.succeeded()
            for event in parser.feed(text):
                yield from self._emit(event)
            if self._is_over or self._left_s() < _NEAR * read_s:
                return
        raise Unreachable("The stream ended before the job did.")

    def _stream(self, headers: dict[str, str], read_s: float) -> Request:
        return Request(path=of_job(self._job_id, "/events"), headers=headers, timeout_s=read_s)

    def _opened(self, request: Request) -> Flow[None]:
        try:
            yield Open(request)
        except FarmError as error:
            if not (isinstance(error, Unreachable) and error.maybe_done):
                self._mute_streams = 0  # nobody was there, or it was refused: that says nothing about streams
            raise

    def _emit(self, event: Event) -> Flow[None]:
        self._last_event_id = event.id
        self._is_over = event.name == "end"
        yield Emit(event)

    def _polled(self) -> Flow[None]:
        """Emit what happened since it was asked last, then wait a while."""
        state = yield Send(Request(path=of_job(self._job_id)))
        job = {name: value for name, value in state.items() if name not in {"payload", "attempts"}}
        has_changed, self._shown = job != self._shown, job
        if has_changed:
            yield from self._emit(Event(name="job", id=self._last_event_id, data=job))
        yield from self._polled_output()
        self._patience.succeeded()
        if job["status"] in ENDED:
            yield from self._emit(Event(name="end", id=self._last_event_id, data={"status": job["status"]}))
            return
        self._poll_s = FIRST_POLL_S if has_changed else min(LONGEST_POLL_S, self._poll_s * 1.5)
        yield Pause(min(self._poll_s * self._rng.uniform(0.8, 1.2), self._left_s()))

    def _polled_output(self) -> Flow[None]:
        """Emit the pieces of output that follow the last one, which its id numbers."""
        while True:
            fence, next_seq = _position(self._last_event_id)
            page = yield Send(self._output_request(after=next_seq - 1))
            if page["fence"] != fence and next_seq:  # another attempt writes now: from its beginning
                self._last_event_id = f"{page['fence']}.0."
                continue
            for piece in page["chunks"]:
                event_id = f"{page['fence']}.{piece['seq'] + 1}."
                yield from self._emit(Event(name="output", id=event_id, data={"fence": page["fence"], **piece}))
            if not page["chunks"]:
                return

    def _output_request(self, *, after: int) -> Request:
        return Request(path=of_job(self._job_id, "/output"), params={"after": after})


class FollowingMany(Following):
    """One caller's way through the events of many jobs, by one stream."""

    def __init__(self, job_ids: Sequence[int], policy: Policy, *, last_event_id: str, timeout_s: float | None) -> None:
        super().__init__(0, policy, last_event_id=last_event_id, timeout_s=timeout_s)
        self._ids = ",".join(map(str, job_ids))
        self._late = f"Not all of the jobs {self._ids} have ended in time. They go on."
        self._running = set(job_ids)

    def _stream(self, headers: dict[str, str], read_s: float) -> Request:
        return Request(path=f"{JOBS}/events", params={"ids": self._ids}, headers=headers, timeout_s=read_s)

    def _polled(self) -> Flow[None]:
        """There is nothing to ask for all of them at once: the stream is opened again."""
        return self._streamed()

    def _emit(self, event: Event) -> Flow[None]:
        self._last_event_id = event.id
        is_new = event.name != "end" or event.data["job"] in self._running
        if event.name == "end":
            self._running.discard(event.data["job"])
        self._is_over = not self._running
        if is_new:
            yield Emit(event)


def _position(event_id: str) -> tuple[int, int]:
    """Fence and number of the next piece of output, as an event's id has them: `<fence>.<next piece>.<version>`."""
    fence, _, rest = event_id.partition(".")
    number = rest.partition(".")[0]
    return (int(fence), int(number)) if fence.isdecimal() and number.isdecimal() else (0, 0)
