"""Follow jobs by an event stream, resumed where it broke off; one job, where no stream comes through, by asking now and
then."""

import math
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, TypedDict, Unpack

import httpx

from jobfarm_client.errors import FarmError, Unreachable, WaitTimeout
from jobfarm_client.models import ENDED, Event
from jobfarm_client.transport import Request, Transport
from jobfarm_client.wire import JOBS, Blocks, object_in, of_job

SILENCE_S = 20.0  # a farm says something every 15 s, so this is a connection that died
MUTE_STREAMS = 2  # opened in a row, and nothing came by them: somebody keeps the stream back
FIRST_POLL_S, LONGEST_POLL_S = 0.5, 5.0
_NEAR = 0.75  # of the time that a read may take: with less left the stream is opened anew, with less time


class Parser(Blocks):
    """The events of a farm's stream that goes on behind `last_id`."""

    def events(self, text: str) -> Iterator[Event]:
        """Those that are complete with this text; comments and retry times are none. Raises Unreachable for what cannot
        be read."""
        for fields in self.feed(text):
            if (data := object_in(fields["data"])) is None:
                raise Unreachable("An event came that cannot be read.")
            yield Event(name=fields.get("event", "message"), id=self.last_id, data=data)


class How(TypedDict, total=False):
    last_event_id: str
    timeout_s: float | None


class Following:
    """One caller's way through a stream's events: of all jobs that match, it has no end."""

    late = "The time to follow jobs is over."

    def __init__(
        self, stream: Request, transport: Transport, *, last_event_id: str = "", timeout_s: float | None = None
    ) -> None:
        """`last_event_id`: behind which event to begin. `timeout_s`: for all of it; None: as long as it takes."""
        self._stream = stream
        self._transport = transport
        self._patience = transport.patience()
        self._last_event_id = last_event_id
        self._until = math.inf if timeout_s is None else time.monotonic() + timeout_s
        self._mute_streams = 0
        self._is_over = False

    async def events(self) -> AsyncGenerator[Event, None]:
        """Every event of the stream, over any number of connections.

        Raises WaitTimeout, and what the client's calls raise once the farm has been away for too long.
        """
        while not self._is_over:
            is_polled = self._mute_streams >= MUTE_STREAMS
            events = self._polled() if is_polled else self._streamed()
            try:
                async with aclosing(events):
                    async for event in events:
                        if self._note(event):
                            yield event
                            self._patience.succeeded()  # the caller may have taken longer than a call is repeated
                continue
            except FarmError as error:
                pause_s = self._pause_s(error, is_polled=is_polled)
            await self._transport.pause(pause_s)

    def _pause_s(self, error: FarmError, *, is_polled: bool) -> float:
        """How long to wait after this; raises it where it is for good."""
        if isinstance(error, WaitTimeout):
            raise error
        left_s = self._left_s()
        if self._mute_streams >= MUTE_STREAMS and not is_polled:
            return 0.0  # it is asked from here on
        return min(self._patience.pause_s(error), left_s)

    def _left_s(self) -> float:
        """Seconds until the caller's time is over; raises WaitTimeout when it is."""
        left_s = self._until - time.monotonic()
        if left_s <= 0:
            raise WaitTimeout(self.late)
        return left_s

    async def _streamed(self) -> AsyncGenerator[Event, None]:
        """What one stream brings; ends when it is to be opened anew. Raises Unreachable when it broke."""
        read_s = min(SILENCE_S, self._left_s())
        headers = {"Last-Event-ID": self._last_event_id} if self._last_event_id else {}
        parser = Parser(self._last_event_id)
        self._mute_streams += 1  # until something comes
        request = replace(self._stream, headers=headers, timeout_s=read_s)
        texts = self._transport.texts(await self._opened(request))
        async with aclosing(texts):
            async for text in texts:
                self._mute_streams = 0
                self._patience.succeeded()
                for event in parser.events(text):
                    yield event
                self._last_event_id = parser.last_id
                if self._is_over or self._left_s() < _NEAR * read_s:
                    return
        raise Unreachable("The stream ended before its jobs did.")

    def _polled(self) -> AsyncGenerator[Event, None]:
        """There is nothing to ask for many jobs at once: the stream is opened again."""
        return self._streamed()

    async def _opened(self, request: Request) -> httpx.Response:
        try:
            return await self._transport.opened(request)
        except FarmError as error:
            if not (isinstance(error, Unreachable) and error.maybe_done):
                self._mute_streams = 0  # nobody was there, or it was refused: that says nothing about streams
            raise

    def _note(self, event: Event) -> bool:
        """Take note of an event before the caller has it; whether it is new."""
        self._last_event_id = event.id
        return True


class FollowingJob(Following):
    """One caller's way through a job's events, `end` last."""

    def __init__(self, job_id: int, transport: Transport, **how: Unpack[How]) -> None:
        super().__init__(Request(path=of_job(job_id, "/events")), transport, **how)
        self._job_id = job_id
        self.late = f"Job {job_id} has not ended in time. It goes on."
        self._poll_s = FIRST_POLL_S
        self._shown: dict[str, Any] = {}  # the job as it was polled last

    def _note(self, event: Event) -> bool:
        self._is_over = event.name == "end"
        return super()._note(event)

    async def _polled(self) -> AsyncGenerator[Event, None]:
        """What happened since it was asked last; then a while passes."""
        state = await self._transport.sent(Request(path=of_job(self._job_id), answered_by="status"))
        job = {name: value for name, value in state.items() if name not in {"payload", "checkpoint", "attempts"}}
        has_changed, self._shown = job != self._shown, job
        if has_changed:
            yield Event(name="job", id=self._last_event_id, data=job)
        async for event in self._polled_output():
            yield event
        self._patience.succeeded()
        if job["status"] in ENDED:
            yield Event(name="end", id=self._last_event_id, data={"status": job["status"]})
            return
        self._poll_s = FIRST_POLL_S if has_changed else min(LONGEST_POLL_S, self._poll_s * 1.5)
        pause_s = self._poll_s * self._transport.rng.uniform(0.8, 1.2)
        await self._transport.pause(min(pause_s, self._left_s()))

    async def _polled_output(self) -> AsyncGenerator[Event, None]:
        """The pieces of output that follow the last one, which its id numbers."""
        while True:
            fence, next_seq = _position(self._last_event_id)
            path, params = of_job(self._job_id, "/output"), {"after": next_seq - 1}
            page = await self._transport.sent(Request(path=path, params=params, answered_by="chunks"))
            if page["fence"] != fence and next_seq:  # another attempt writes now: from its beginning
                self._last_event_id = f"{page['fence']}.0."
                continue
            for piece in page["chunks"]:
                event_id = f"{page['fence']}.{piece['seq'] + 1}."
                yield Event(name="output", id=event_id, data={"fence": page["fence"], **piece})
            if not page["chunks"]:
                return


class FollowingJobs(Following):
    """One caller's way through the events of some jobs, by one stream, until all have ended."""

    def __init__(self, job_ids: Sequence[int], transport: Transport, **how: Unpack[How]) -> None:
        ids = ",".join(map(str, job_ids))
        super().__init__(Request(path=f"{JOBS}/events", params={"ids": ids}), transport, **how)
        self.late = f"Not all of the jobs {ids} have ended in time. They go on."
        self._running = set(job_ids)

    def _note(self, event: Event) -> bool:
        is_new = event.name != "end" or event.data["job"] in self._running
        if event.name == "end":
            self._running.discard(event.data["job"])
        self._is_over = not self._running
        return super()._note(event) and is_new


def _position(event_id: str) -> tuple[int, int]:
    """Fence and number of the next piece of output, as an event's id has them: `<fence>.<next piece>.<version>`."""
    fence, _, rest = event_id.partition(".")
    number = rest.partition(".")[0]
    return (int(fence), int(number)) if fence.isdecimal() and number.isdecimal() else (0, 0)
