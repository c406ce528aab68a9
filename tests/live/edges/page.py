"""A page that opened a socket, as seen from its side."""

import json
from typing import Any, ClassVar

from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.test import Client

from live.routing import application
from postgres import connections

_WITHIN_S = 10


class Page:
    """One open socket, with the cookies of a client or without any."""

    all: ClassVar[list["Page"]] = []

    def __init__(self, communicator: Any) -> None:
        self._communicator = communicator

    @classmethod
    async def open(
        cls, client: Client | None = None, *, origin: str = "http://127.0.0.1", address: str | None = None
    ) -> "Page":
        """Connect, perhaps from an address; an AssertionError when the server refuses."""
        headers = [(b"origin", origin.encode()), (b"host", b"127.0.0.1")]
        if client is not None:
            key = client.cookies[settings.SESSION_COOKIE_NAME].value
            headers.append((b"cookie", f"{settings.SESSION_COOKIE_NAME}={key}".encode()))
        scope = {
            "type": "websocket",
            "path": "/ws/live/",
            "headers": headers,
            "query_string": b"",
            "subprotocols": [],
            "client": None if address is None else (address, 50_000),
        }
        communicator: Any = ApplicationCommunicator(application, scope)  # type: ignore[no-untyped-call]  # asgiref's tests have no types
        await communicator.send_input({"type": "websocket.connect"})
        answer = await communicator.receive_output(timeout=_WITHIN_S)
        assert answer["type"] == "websocket.accept", answer
        page = cls(communicator)
        cls.all.append(page)
        return page

    async def says(self, **message: Any) -> None:
        """Send a message."""
        await self.says_text(json.dumps(message))

    async def says_text(self, text: str) -> None:
        """Send whatever."""
        await self._communicator.send_input({"type": "websocket.receive", "text": text})

    async def says_bytes(self, data: bytes) -> None:
        """Send a binary message."""
        await self._communicator.send_input({"type": "websocket.receive", "bytes": data})

    async def watches(self, name: str, watch_id: str = "a", /, **more: Any) -> None:
        """Wish to watch one live query; `version`, `cursor` and `ticket` beside its arguments."""
        beside = {key: more.pop(key) for key in ("version", "cursor", "ticket") if key in more}
        await self.says(watch=[{"id": watch_id, "name": name, "args": more, **beside}])

    async def hears(self) -> dict[str, Any]:
        """The next message."""
        output = await self.receives()
        assert output["type"] == "websocket.send", output
        message: dict[str, Any] = json.loads(output["text"])
        return message

    async def hears_nothing(self) -> bool:
        """Whether nothing comes before the answer to a ping, which is worked off after all else."""
        await self.says(ping=True)
        return await self.hears() == {"pong": True}

    async def has_message(self) -> bool:
        """Whether something comes within a moment, without a ping, which waits for what is being worked off."""
        return not await self._communicator.receive_nothing(timeout=0.2)

    async def is_closed_with(self) -> int:
        """The code that the server closes with; an AssertionError when it sends something else first."""
        output = await self.receives()
        assert output["type"] == "websocket.close", output
        return int(output["code"])

    async def receives(self) -> dict[str, Any]:
        """The next thing the server does."""
        return dict(await self._communicator.receive_output(timeout=_WITHIN_S))

    async def close(self) -> None:
        """Leave, and wait until the server has noticed."""
        await self._communicator.send_input({"type": "websocket.disconnect", "code": 1001})
        await self._communicator.wait(timeout=_WITHIN_S)


async def logged_in(user: Any) -> Client:
    """A browser in which this person is logged in."""
    client = Client()
    await connections.run(client.force_login, user)
    return client
