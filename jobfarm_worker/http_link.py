"""The farm over HTTP: every call as a request, and the files (always this way)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx

from jobfarm_worker import protocol
from jobfarm_worker.errors import Unauthorized, Unreachable, WorkerError, WrongServer
from jobfarm_worker.outbox import File
from jobfarm_worker.protocol import Call

CONNECT_S = 10.0
Take = Callable[[int, bytes], Awaitable[None]]


class HttpLink:
    """Requests to one farm; to be used as an async context manager."""

    def __init__(self, *, url: str, headers: dict[str, str]) -> None:
        self._url = url
        self._client = httpx.AsyncClient(headers=headers, timeout=CONNECT_S)
        self.known = False
        """A job farm has answered here: from then on a strange page is an outage, not a wrong address."""

    async def call(self, call: Call, *, timeout_s: float) -> dict[str, Any]:
        """Send one call and return its answer.

        Raises Refused (the farm refused), Unauthorized, WrongServer (strangers answer at this address), or
        Unreachable (no usable answer; `maybe_done` says whether the call may have taken effect).
        """
        content = protocol.dumps(call.body).encode()
        headers = {"Content-Type": "application/json"}
        return await self._request("POST", call.path, content=content, headers=headers, timeout_s=timeout_s)

    async def put(self, file: File, *, job: int, lease: str, timeout_s: float) -> None:
        """Store a result file; raises like `call`."""
        path = f"/api/v1/worker/jobs/{job}/files/{quote(file.name, safe='')}?lease={quote(lease, safe='')}"
        headers = {"Content-Type": "application/octet-stream"}
        await self._request("PUT", path, content=file.data, headers=headers, timeout_s=timeout_s)

    async def fetch(
        self, name: str, *, job: int, lease: str, start: int, timeout_s: float, take: Take
    ) -> None:
        """Fetch an input file from byte `start` on: `take` gets each piece, with the place of its first byte.

        A farm that does not know ranges begins at 0. `timeout_s` is the longest silence. Raises like `call`.
        """
        path = f"/api/v1/worker/jobs/{job}/inputs/{quote(name, safe='')}?lease={quote(lease, safe='')}"
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={start}-"} if start else {})}
        timeout = httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s))
        request = self._client.build_request("GET", self._url + path, headers=headers, timeout=timeout)
        with _unreachable():
            response = await self._client.send(request, stream=True, follow_redirects=True)
            try:
                await self._take(response, take, start=start)
            finally:
                await response.aclose()

    async def _take(self, response: httpx.Response, take: Take, *, start: int) -> None:
        if response.status_code not in {httpx.codes.OK, httpx.codes.PARTIAL_CONTENT}:
            await response.aread()
            self._answer(response)
            raise self._stranger(response)
        place = start if response.status_code == httpx.codes.PARTIAL_CONTENT else 0
        async for piece in response.aiter_bytes():
            await take(place, piece)
            place += len(piece)

    async def _request(
        self, method: str, path: str, *, content: bytes, headers: dict[str, str], timeout_s: float
    ) -> dict[str, Any]:
        timeout = httpx.Timeout(timeout_s, connect=min(CONNECT_S, timeout_s))
        with _unreachable():
            response = await self._client.request(
                method, self._url + path, content=content, headers=headers, timeout=timeout
            )
        return self._answer(response)

    def _answer(self, response: httpx.Response) -> dict[str, Any]:
        if response.status_code == httpx.codes.UNAUTHORIZED:
            raise Unauthorized
        data = _object(response)
        if response.is_success and (data is not None or not response.content):
            self.known = True
            return data or {}
        if data is not None and "error" in data and not response.is_success:
            self.known = True
            raise protocol.refusal(status=response.status_code, data={**_retry_after(response), **data})
        raise self._stranger(response)

    def _stranger(self, response: httpx.Response) -> WorkerError:
        """An answer that no farm gives: a proxy's page, another site, a redirect."""
        status = f"{response.status_code} {response.reason_phrase}".strip()
        if response.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE:  # from a proxy before the farm
            return protocol.refusal(status=413, data={"error": "too_large", "message": "It is too large."})
        if self.known or response.is_server_error:
            return Unreachable(f"{self._url} answered {status}.")
        target = response.headers.get("location")
        hint = f"it redirects to {target}" if target else f"it answered {status}"
        return WrongServer(f"{self._url} is not the address of a job farm: {hint}.")

    async def __aenter__(self) -> HttpLink:
        await self._client.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._client.__aexit__(kind, error, trace)


@contextlib.contextmanager
def _unreachable() -> Iterator[None]:
    """Raise what the network does wrong as Unreachable."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError) as error:
        raise Unreachable(_sentence(error), maybe_done=False) from error
    except (httpx.TransportError, httpx.DecodingError, httpx.TooManyRedirects) as error:
        raise Unreachable(_sentence(error)) from error


def _sentence(error: Exception) -> str:
    return str(error) or type(error).__name__


def _object(response: httpx.Response) -> dict[str, Any] | None:
    try:
        value = json.loads(response.content)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _retry_after(response: httpx.Response) -> dict[str, str]:
    """The header, for answers whose body does not repeat it."""
    retry_after = response.headers.get("retry-after")
    return {} if retry_after is None else {"retry_after": retry_after}
