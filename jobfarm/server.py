"""What serves: Django, which a request enters in a thread once and leaves with its answer, behind the wrapper that
waits for it; two sockets, and an orderly end."""

import asyncio
import contextvars
import gc
import logging
import resource
import signal
import sys
from collections import Counter
from collections.abc import Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib import import_module
from types import FrameType
from typing import IO, Any, Final, TypeVar, cast

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.signals import request_started
from django.db import close_old_connections
from django.http import FileResponse, HttpRequest
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

from core.asgi import App, Receive, Scope, Send, wait_until_gone
from jobfarm import middleware
from jobfarm.requests import BoundedBodies, LoggedSocket, Observed
from jobs.consumers import WorkerSocket
from jobs.waiting.notifier import Notifier
from jobs.waiting.presence import Beats, Seen
from jobs.waiting.requests import Handler
from jobs.waiting.wrapper import ADDRESSES, Waiting
from live import configuration, hub, routing as live
from observing import fields, numbers
from openai_api.domain import ADDRESS as OPENAI
from openai_api.waiting.calls import OpenAICalls
from postgres import by_loop, connections, descriptors
from postgres.deadline import end_within
from webhooks.http.ingress import Webhooks
from webhooks.sources.configs import PATHS

T = TypeVar("T")

logger = logging.getLogger("jobfarm")
THREADS: Final = 100  # five for each connection of a process: who reads no table should not wait for those who do
# Whoever asks whether this process is well is answered also when all others wait for a database that has frozen.
PROBES: Final = ("/health/", "/metrics")
PROBE_THREADS: Final = 8
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


class OneHop(ASGIHandler):
    """Django's handler for ASGI, with all that is done for a request in one hop into one of a few threads.

    No view of ours is asynchronous: what waits, waits outside Django (jobs.waiting). Django's own handler starts a
    thread for each request and enters it for each middleware, for the view, and for the signals before and after them
    (docs/adr/0037). What streams is sent by Django's own code; its connection was given back before.
    """

    def __init__(self) -> None:
        super().__init__()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="jobfarm-request")
        self._probes = ThreadPoolExecutor(PROBE_THREADS, thread_name_prefix="jobfarm-probe")

    def load_middleware(self, is_async: bool = False) -> None:  # noqa: ARG002 (Django's own signature)
        super().load_middleware(is_async=False)

    async def handle(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request. It comes to its end whether or not the client is still there."""
        try:
            body = await self.read_body(receive)
        except RequestAborted:
            return
        with body:
            response = await self.respond(scope, body)
            if response.streaming:
                await self._stream(response, receive, send)
            else:
                await self.send_response(response, send)

    async def respond(self, scope: MutableMapping[str, Any], body: IO[bytes]) -> HttpResponseBase:
        """The answer to a request with this body, closed unless it streams."""
        path = scope["path"].removeprefix(scope.get("root_path", ""))
        threads = self._probes if path.startswith(PROBES) else self._threads
        return await self._in_a_thread(partial(self._answer, scope, body), threads)

    async def run(self, function: Callable[[], T]) -> T:
        """Call it in one of the threads that serve requests, when one is free; its connection is given back."""
        return await self._in_a_thread(connections.released()(function), self._threads)

    async def _in_a_thread(self, function: Callable[[], T], threads: ThreadPoolExecutor) -> T:
        context = contextvars.copy_context()  # log lines of the thread are about what this request is about
        return await asyncio.get_running_loop().run_in_executor(threads, context.run, function)

    def _answer(self, scope: MutableMapping[str, Any], body: IO[bytes]) -> HttpResponseBase:
        set_script_prefix(get_script_prefix(scope))
        request_started.send(sender=self.__class__, scope=scope)
        request, refusal = self.create_request(scope, body)
        response: Any = refusal if request is None else self.get_response(request)
        _note_person(request)
        response._handler_class = self.__class__  # noqa: SLF001 (the sender of the signal at its close)
        if response.streaming:
            close_old_connections()
        else:
            response.close()
        return cast("HttpResponseBase", response)

    async def _stream(self, response: Any, receive: Receive, send: Send) -> None:
        """Send it piece by piece, until its end or until the client has gone."""
        if isinstance(response, FileResponse):
            response.block_size = self.chunk_size  # as Django does: servers cut it themselves
        tasks = [asyncio.create_task(self.send_response(response, send)), asyncio.create_task(wait_until_gone(receive))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            done = await asyncio.gather(*tasks, return_exceptions=True)
            await sync_to_async(response.close)()
        if isinstance(done[0], Exception):
            raise done[0]


def _note_person(request: HttpRequest | None) -> None:
    """Whose session it was, for the access log, if anybody asked."""
    person = getattr(request, "_cached_user", None)  # where Django's own middleware keeps it
    if person is not None and person.pk is not None:
        fields.note(user=person.pk)


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
            WORKER_SOCKET: WorkerSocket(notifier=self.notifier, seen=self._seen, refuse=middleware.problem),
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
            if self._notifier is not None:
                self._ending = self._loop.create_task(self._notifier.stop())

    async def stop(self) -> None:
        self.begin_to_stop()
        if self._ending is not None:
            await self._ending
        await self._seen.stop()
        await self._beats.stop()
        await hub.current().stop()  # one that nobody has used yet is gone before it begins
        await by_loop.close()


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
