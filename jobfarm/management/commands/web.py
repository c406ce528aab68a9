import signal
import socket
from argparse import ArgumentParser
from typing import Any

import uvicorn
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from core import commands
from jobfarm import processes
from jobfarm.metrics import text
from jobfarm.serving import Server
from observing import numbers
from postgres import connections, embedded

DRAIN_S = 5  # open requests get this long after SIGTERM; waiting ones are answered at once
LINGER_HELP = (
    "serve on for so long after SIGTERM, each answer the last of its connection: behind a proxy that keeps "
    "connections, longer than it keeps idle ones (with deploy/nginx and deploy/caddy: 5)"
)

METRICS_HELP = "serve /metrics there too, of this process alone: where several share a port, any of them answers at it"


class Command(BaseCommand):
    help = f"Serve pages, API and sockets at HOST:PORT. `{commands.MANAGE} farm` starts this for you."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1")
        parser.add_argument("--port", type=int, default=settings.PORT)
        parser.add_argument("--fd", type=int, help="a listening socket that the parent opened")
        parser.add_argument("--metrics", type=numbers.address, metavar="[HOST:]PORT", help=METRICS_HELP)
        parser.add_argument("--linger", type=float, default=0.0, metavar="SECONDS", help=LINGER_HELP)

    def handle(
        self, *, host: str, port: int, fd: int | None, linger: float = 0.0, metrics: tuple[str, int] | None = None,
        **_: Any,
    ) -> None:  # fmt: skip
        if metrics:
            numbers.expose(metrics, token=settings.METRICS_TOKEN, render=connections.released()(text))
        try:
            listener = processes.bind(host, port) if fd is None else socket.socket(fileno=fd)
        except (processes.AddressInUse, OSError) as error:
            raise CommandError(str(error)) from None
        # uvicorn raises the signal that ended it once more when it is done; by then it must not kill us, so that the
        # embedded server is left properly.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        try:
            Server(configuration(), linger_s=linger).run(sockets=[listener])
        finally:
            embedded.release()


def configuration() -> uvicorn.Config:
    return uvicorn.Config(
        "jobfarm.asgi:application",
        http="jobfarm.serving:Protocol",
        ws="jobfarm.serving:Frames",
        # A megabyte of result is six in escapes (\u0065). A message over its limit is refused with a sentence; only one
        # over twice that costs its worker the socket.
        ws_max_size=2 * settings.JOBFARM["BODY_BYTES"],
        ws_per_message_deflate=False,  # 50 KB of memory a socket; messages are small
        ws_ping_interval=20,
        ws_ping_timeout=20,
        lifespan="on",
        log_config=None,  # its lines look like ours (observing.logs)
        log_level="warning",
        access_log=False,  # jobfarm.requests writes ours
        server_header=False,
        timeout_graceful_shutdown=DRAIN_S,
        proxy_headers=True,
    )
