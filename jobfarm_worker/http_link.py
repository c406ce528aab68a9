"""The farm over HTTP: every call as a request, and the files (always this way)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

from jobfarm_client import wire
from jobfarm_worker.outbox import File
from jobfarm_worker.protocol import Call

Take = Callable[[int, bytes], Awaitable[None]]


class HttpLink:
    """Requests to one farm; to be used as an async context manager."""

    def __init__(self, *, url: str, headers: dict[str, str]) -> None:
        self._url = url
        self._client = httpx.AsyncClient(headers=headers, timeout=wire.CONNECT_S)
        self.answers = wire.Answers(url)

    async def call(self, call: Call, *, timeout_s: float) -> dict[str, Any]:
        """Send one call and return its answer.

        Raises Refused (the farm refused), Unauthorized, WrongServer (strangers answer at this address), or
        Unreachable (no usable answer; `maybe_done` says whether the call may have taken effect).
        """
        content = wire.dumps(call.body).encode()
        headers = {"Content-Type": "application/json"}
        return await self._request("POST", call.path, content=content, headers=headers, timeout_s=timeout_s)

    async def put(self, file: File, *, job: int, lease: str, timeout_s: float) -> None:
        """Store a result file; raises like `call`."""
        path = f"/api/v1/worker/jobs/{job}/files/{quote(file.name, safe='')}?lease={quote(lease, safe='')}"
        headers = {"Content-Type": "application/octet-stream"}
        await self._request("PUT", path, content=file.data, headers=headers, timeout_s=timeout_s)

    async def fetch(self, name: str, *, job: int, lease: str, start: int, timeout_s: float, take: Take) -> None:
        """Fetch an input file from byte `start` on: `take` gets each piece, with the place of its first byte.

        A farm that does not know ranges begins at 0. `timeout_s` is the longest silence. Raises like `call`.
        """
        path = f"/api/v1/worker/jobs/{job}/inputs/{quote(name, safe='')}?lease={quote(lease, safe='')}"
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={start}-"} if start else {})}
        request = self._client.build_request("GET", self._url + path, headers=headers, timeout=wire.timeout(timeout_s))
        try:
            response = await self._client.send(request, stream=True, follow_redirects=True)
            try:
                await self._take(response, take, start=start)
            finally:
                await response.aclose()
        except (httpx.TransportError, httpx.DecodingError, httpx.TooManyRedirects) as error:
            raise wire.unreachable(error) from error

    async def _take(self, response: httpx.Response, take: Take, *, start: int) -> None:
        if response.status_code not in {httpx.codes.OK, httpx.codes.PARTIAL_CONTENT}:
            await response.aread()
            raise self.answers.no_stream(response)
        place = start if response.status_code == httpx.codes.PARTIAL_CONTENT else 0
        async for piece in response.aiter_bytes():
            await take(place, piece)
            place += len(piece)

    async def _request(
        self, method: str, path: str, *, content: bytes, headers: dict[str, str], timeout_s: float
    ) -> dict[str, Any]:
        timeout = wire.timeout(timeout_s)
        try:
            response = await self._client.request(
                method, self._url + path, content=content, headers=headers, timeout=timeout
            )
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise wire.unreachable(error) from error
        return self.answers.read(response)

    async def __aenter__(self) -> HttpLink:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)
