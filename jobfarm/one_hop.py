"""Django's part of the server: a request enters a thread once, and leaves it with its answer."""

import asyncio
import contextvars
from collections.abc import Callable, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import IO, Any, Final, TypeVar, cast

from asgiref.sync import sync_to_async
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.core.signals import request_started
from django.db import close_old_connections
from django.http import FileResponse, HttpRequest
from django.http.response import HttpResponseBase
from django.urls import set_script_prefix

from core.asgi import Receive, Send, wait_until_gone
from observing import fields
from postgres import connections

T = TypeVar("T")

THREADS: Final = 100  # five for each connection of a process: who reads no table should not wait for those who do
# Whoever asks whether this process is well is answered also when all others wait for a database that has frozen.
PROBES: Final = ("/health/", "/metrics")
PROBE_THREADS: Final = 8


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
