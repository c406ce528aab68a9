"""The farm over HTTP: every call as a request, and the files (always this way)."""

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote

import httpx

from jobfarm_client import wire
from jobfarm_client.transport import Awaited, Options, Request, unreachable
from jobfarm_worker.outbox import File
from jobfarm_worker.protocol import Call, ClaimedJob

FILE_S = 300.0
FETCH_S = 30.0  # the longest silence within a download
Take = Callable[[int, bytes], Awaitable[None]]


class HttpLink(Awaited):
    """Requests to one farm, each sent once; to be closed.

    All raise Refused (the farm refused), Unauthorized, WrongServer (strangers answer at this address), or Unreachable
    (no usable answer; `maybe_done` says whether the call may have taken effect).
    """

    def __init__(self, *, url: str, headers: dict[str, str]) -> None:
        super().__init__(Options(url=url, headers=headers, timeout_s=wire.CONNECT_S, retry_for_s=0.0))

    async def call(self, call: Call, *, timeout_s: float) -> dict[str, Any]:
        request = Request(
            method="POST", path=call.path, body=call.body, timeout_s=timeout_s, answered_by=call.answered_by
        )
        return await self.sent(request)

    async def put(self, file: File, *, claimed: ClaimedJob) -> dict[str, Any]:
        headers = {"Content-Type": "application/octet-stream"}
        path, params = _of_file(claimed.id, "files", file.name), {"lease": claimed.lease}
        request = Request(
            method="PUT", path=path, params=params, content=file.data, headers=headers, timeout_s=FILE_S,
            answered_by="name",
        )  # fmt: skip
        return await self.sent(request)

    async def fetch(self, name: str, *, claimed: ClaimedJob, start: int, take: Take) -> None:
        """Fetch an input file once, from byte `start` on: `take` gets each piece, with the place of its first byte. A
        farm that does not know ranges begins at 0."""
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={start}-"} if start else {})}
        path, params = _of_file(claimed.id, "inputs", name), {"lease": claimed.lease}
        with unreachable():
            request = Request(path=path, params=params, headers=headers, timeout_s=FETCH_S)
            response = await self._send(request, follow_redirects=True)
            try:
                await self._take(response, take, start=start)
            finally:
                await self._end(response)

    async def _take(self, response: httpx.Response, take: Take, *, start: int) -> None:
        if not self.answers.is_file(response):
            raise self.answers.misfit(response, await self._body(response))
        place = start if response.status_code == httpx.codes.PARTIAL_CONTENT else 0
        async for piece in self._in_time(response):
            await take(place, piece)
            place += len(piece)


def _of_file(job: int, folder: str, name: str) -> str:
    return f"/api/v1/worker/jobs/{job}/{folder}/{quote(name, safe='')}"
