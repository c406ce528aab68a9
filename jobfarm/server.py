"""What serves: Django behind the wrapper that waits for it, two sockets, and an orderly end."""

import asyncio
import gc
import logging
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from types import FrameType
from typing import Any, Final, cast

from django.conf import settings

from core.asgi import App, Receive, Scope, Send
from jobfarm import refusals
from jobfarm.bodies import BoundedBodies
from jobfarm.one_hop import OneHop
from jobfarm.requests import LoggedSocket, Observed
from jobs.consumers import WorkerSocket
from jobs.waiting.notifier import Notifier
from jobs.waiting.presence import Beats, Seen
from jobs.waiting.requests import Handler
from jobs.waiting.wrapper import ADDRESSES, Waiting
from live import configuration, hub, routing as live
from observing import numbers
from openai_api.domain import ADDRESS as OPENAI
from openai_api.waiting.calls import OpenAICalls
from postgres import by_loop, descriptors
from postgres.deadline import end_within
from webhooks.http.ingress import Webhooks
from webhooks.sources.configs import PATHS

logger = logging.getLogger("jobfarm")
LIVE_SOCKET: Final = "/ws/live/"
WORKER_SOCKET: Final = "/ws/worker/"
ENDS_WITHIN_S: Final = 9.0  # open requests get five; the farm kills after ten
FEW_FILES: Final = (
    "This process may open %d files, and each socket is one: more than that are not served. Let the system allow %d "
    "(ulimit -Hn, LimitNOFILE of systemd)."
)
# Python's own are 700, 10, 10: each change of a live page with ten watchers was looked over several times while it was
# still being made, and outlived the young generations. The reasons and the figures are docs/adr/0037.
THRESHOLDS: Final = (10_000, 10, 10)
# Python's own is 5 ms: for so long the loop waits for its turn where a thread computes, and what it does next is short.
SWITCH_S: Final = 0.001


class Server:
    """The ASGI application. What belongs to an event loop is made on it when it is first needed."""

    def __init__(self, django: OneHop) -> None:
        self._django = django
        self._running: Running | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._running is None:
            self._running = Running(self._django)
        if scope["type"] == "lifespan":
            await self._live(self._running, receive, send)
        else:
            await self._running.serve(scope, receive, send)

    async def _live(self, running: "Running", receive: Receive, send: Send) -> None:
        await receive()
        restore = _on_signals(running.begin_to_stop)
        await running.begin()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await running.stop()
        self._running = None
        restore()
        await send({"type": "lifespan.shutdown.complete"})


class Running:
    def __init__(self, django: OneHop) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()  # from then on whoever waits is answered at once
        self._seen = Seen()
        self._beats = Beats(in_a_request_thread=django.run)
        self._notifier: Notifier | None = None
        self._ending: asyncio.Task[None] | None = None
        handler = cast("Handler", django)
        half_sent: Counter[str] = Counter()
        waiting = Waiting(handler, notifier=self.notifier, stopping=self._stopping)
        calls = OpenAICalls(handler, stopping=self._stopping)
        self._waiting, self._calls, self._pages = (
            BoundedBodies(app, half_sent=half_sent) for app in (waiting, calls, handler)
        )
        self._webhooks = Webhooks()  # with bounds of its own
        self._observed = Observed(self._serve_http)
        sockets: dict[str, Any] = {
            LIVE_SOCKET: live.application,
            WORKER_SOCKET: WorkerSocket(notifier=self.notifier, seen=self._seen, refuse=refusals.problem),
        }
        self._sockets = sockets

    async def begin(self) -> None:
        _allow_files()
        await self._beats.begin()

    def notifier(self) -> Notifier:
        """The process's notifier, made when somebody waits for the first time: a server that is idle asks nothing."""
        if self._notifier is None:
            self._notifier = Notifier(stopping=self._stopping)
        return self._notifier

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._observed(scope, receive, send)
            return
        socket = self._sockets.get(scope["path"].removeprefix(scope.get("root_path", "")))
        if socket is None:
            await receive()
            await send({"type": "websocket.close"})  # before it was accepted: 403
        else:
            label = "browsers' sockets" if socket is live.application else "workers' sockets"
            with numbers.OPEN.labels(label).track_inprogress():
                await LoggedSocket(socket)(scope, receive, send)

    async def _serve_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        app: App = self._pages
        if path in PATHS:
            app = self._webhooks
        elif path.startswith(OPENAI):
            app = self._calls
        elif ADDRESSES.fullmatch(path):
            app = self._waiting
        await app(scope, receive, send)

    def begin_to_stop(self) -> None:
        """Send home whoever waits. Servers wait for open requests before they stop the application."""
        if not self._stopping.is_set():
            self._stopping.set()
            self._ending = self._loop.create_task(self._stop_waiting())

    async def stop(self) -> None:
        self.begin_to_stop()
        if self._ending is not None:
            await self._ending
        await self._seen.stop()
        await self._beats.stop()
        await hub.current().stop()  # one that nobody has used yet is gone before it begins
        await by_loop.close()

    async def _stop_waiting(self) -> None:
        if self._notifier is not None:
            await self._notifier.stop()


def _allow_files() -> None:
    files = descriptors.allow_many()
    if files < configuration.FILES and files != resource.RLIM_INFINITY:
        logger.warning(FEW_FILES, files, configuration.FILES)


def _on_signals(stop: Callable[[], None]) -> Callable[[], None]:
    """Call `stop` on this loop at TERM and INT, before whoever handled them until now.

    Returns what undoes it.

    The server has set its own handlers by then; outside of the main thread there are none, and nothing to do.
    """
    loop = asyncio.get_running_loop()
    previous: dict[int, Any] = {}

    def handle(number: int, frame: FrameType | None) -> None:
        end_within(ENDS_WITHIN_S)
        loop.call_soon_threadsafe(stop)
        if callable(previous[number]):
            previous[number](number, frame)

    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            previous[number] = signal.getsignal(number)
            signal.signal(number, handle)
    except ValueError:
        logger.debug("Not in the main thread: whoever started this ends it")

    def restore() -> None:
        for number, handler in previous.items():
            if signal.getsignal(number) is handle:
                signal.signal(number, handler)

    return restore


def freeze() -> None:
    """Load what the first request would, exempt all there is now from collection, for the life of the process, collect
    what comes from now on, and let threads take shorter turns.

    Call it once, at the end of the start: what is garbage afterwards and was there before is never freed.
    """
    import_module(settings.ROOT_URLCONF)
    gc.collect()
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
    sys.setswitchinterval(SWITCH_S)
