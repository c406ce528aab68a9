"""The worker: takes jobs, runs their handlers, reports their outcomes."""

import asyncio
import contextlib
import contextvars
import os
import random
import signal
import socket
from collections.abc import Callable

from jobfarm_worker.errors import BadOption
from jobfarm_worker.farm import Farm
from jobfarm_worker.links import HttpLink, SocketLink
from jobfarm_worker.observing import Scoreboard
from jobfarm_worker.options import Options
from jobfarm_worker.running import Handlers, HandlerT
from jobfarm_worker.session import Session
from jobfarm_worker.tasks import DaemonThreads


class Worker(Options):
    """Runs jobs of one farm with its handlers.

    worker = Worker("https://farm.example", key)

    @worker.handler("greet")
    async def greet(job):
        job.write(f"Hello {job.payload['name']}.")
        return {"greeted": True}

    worker.run_forever()
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        self.name = socket.gethostname()
        self.board = Scoreboard()
        self.rng: random.Random = random.SystemRandom()  # for pauses
        self._handlers = Handlers()
        self._session: Session | None = None

    def handler(self, kind: str) -> Callable[[HandlerT], HandlerT]:
        """Decorator: this function (async, or plain: then in a thread) runs jobs of this kind.

        It takes the Job and returns the result (anything JSON). Raising fails the attempt; `Failed(...,
        retryable=False)` fails the job for good.
        """
        return self._handlers.handler(kind)

    def include(self, handlers: Handlers) -> None:
        """Take over all handlers of a set; raises BadOption for a kind that has one already."""
        self._handlers.include(handlers)

    @property
    def connection(self) -> str:
        """How calls travel at the moment, for people."""
        return "no connection" if self._session is None else self._session.farm.transport

    def stop(self) -> None:
        """Take no more jobs; a second call gives back at once what is still running. On the loop's thread."""
        if self._session is not None:
            self._session.stop()

    async def run(self) -> None:
        """Work until `stop` is called; canceling this gives back at once what is held.

        Raises Unauthorized when the key is wrong or gets revoked, WrongServer when no farm is at the address,
        Refused when the farm will not let this worker claim, BadOption when there is no handler.
        """
        if not self._handlers:
            raise BadOption("A worker needs at least one handler.")
        headers = self.headers(name=self.name)
        http = HttpLink(url=self.url, headers=headers)

        async def open_socket(timeout_s: float) -> SocketLink:
            url = self.socket_url
            return await SocketLink.opened(url=url, headers=headers, on_push=farm.pushed, timeout_s=timeout_s)

        opener = None if self.transport == "http" else open_socket
        farm = Farm(http, socket=opener, needs_socket=self.transport == "ws", rng=self.rng)
        self._session = Session(self, farm=farm, handlers=self._handlers, board=self.board)
        try:
            await self._session.run()
        finally:
            self._session = None
            await http.close()

    def run_forever(self) -> None:
        """Run in a loop of its own until SIGTERM or SIGINT; raises like `run`.

        The first signal takes no more jobs and lets those that run finish within the grace, then gives them
        back; the second gives them back at once.
        """
        with asyncio.Runner(loop_factory=_quick_loop()) as runner:
            runner.run(self._run_until_signal())

    async def _run_until_signal(self) -> None:
        loop, process = asyncio.get_running_loop(), os.getpid()
        loop.set_default_executor(DaemonThreads())

        def stop(number: int, _: object) -> None:
            if os.getpid() == process:
                # Not in the context of what the signal interrupted: the log would take it for that job's.
                loop.call_soon_threadsafe(self.stop, context=contextvars.Context())
            else:  # one that a handler forked: its signals are its own, which loops would take for theirs
                signal.signal(number, signal.SIG_DFL)
                signal.raise_signal(number)

        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        for number in before:
            with contextlib.suppress(NotImplementedError):  # Windows, whose loop wakes for each
                loop.add_signal_handler(number, lambda: None)  # wakes the loop, whichever thread gets the signal
            signal.signal(number, stop)
        try:
            await self.run()
        finally:
            for number, handler in before.items():
                with contextlib.suppress(NotImplementedError):
                    loop.remove_signal_handler(number)
                signal.signal(number, handler or signal.SIG_DFL)


def _quick_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's where it is installed: a streamed token costs a fifth less of the worker's processor."""
    try:
        import uvloop  # noqa: PLC0415 (a worker runs without it)
    except ImportError:
        return None
    return uvloop.new_event_loop
