"""What messages go to: a mail server, and a server that takes what Slack's incoming webhooks take."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage as Mail
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller


class Mailbox:
    """What a mail server was handed."""

    def __init__(self) -> None:
        self.mails: list[tuple[list[str], Mail]] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 (aiosmtpd's name)
        """Keep one."""
        mail = message_from_bytes(envelope.content, policy=policy.default)
        self.mails.append((envelope.rcpt_tos, mail))
        return "250 OK"


@contextmanager
def mail_server(port: int) -> Iterator[Mailbox]:
    """A mail server at this port."""
    box = Mailbox()
    controller = Controller(box, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        yield box
    finally:
        controller.stop()


class Room:
    """What was posted to a webhook, and how it answers."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, dict[str, Any]]] = []
        self.status = 200


@contextmanager
def webhook() -> Iterator[tuple[str, Room]]:
    """A server on this machine: its address, and what it got."""
    room = Room()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            room.posted.append((self.path, json.loads(body)))
            self.send_response(room.status)
            self.end_headers()
            self.wfile.write(b"no" if room.status != 200 else b"ok")

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/services/T0/B0/secret", room
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
