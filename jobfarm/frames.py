"""The server's protocol for WebSockets: of a page's message no more is kept than a page can mean.

What uvicorn keeps of a message until it is whole is one number for all sockets, and that of the workers' is 20 MB. The
pages' is open to everybody, and a few hundred halves of messages would be all of the memory.
"""

from typing import Final

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from live.protocol import LONGEST_MESSAGE

PAGES: Final = "/ws/live/"
_BYTES_A_CHARACTER: Final = 2  # of an average one, in UTF-8; what is longer still is closed with 1009


class Protocol(WebSocketsSansIOProtocol):
    """Uvicorn's, with a limit of its own for the sockets of pages."""

    def handle_connect(self, event: Request) -> None:
        if event.path.partition("?")[0].endswith(PAGES):
            self.conn.max_message_size = _BYTES_A_CHARACTER * LONGEST_MESSAGE
        super().handle_connect(event)
