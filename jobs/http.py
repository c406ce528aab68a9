"""What HTTP adds: keys of workers, ids in paths, how much may be asked, files both ways, notes to the wrapper outside
of Django."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import PurePath
from typing import Final

from django.conf import settings
from django.contrib.auth.models import User
from django.core.files.base import File
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import TemporaryUploadedFile
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponseNotModified, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import register_converter
from ninja.security import HttpBearer

from accounts import http as people
from jobs import limits, operations
from jobs.errors import InvalidKey, InvalidValue, NotFound, PayloadTooLarge
from jobs.models import ResultFile, Worker
from jobs.queries.reads import Interest
from jobs.wire.values import BIGINT
from ratelimits import operations as ratelimits
from ratelimits.operations import Ask

# Notes from a view to jobs.waiting, which takes them off the answer. They travel outwards only: what a client
# sends under these names is never looked at.
WAITS_FOR: Final = "X-Jobfarm-Waits-For"
STREAMS: Final = "X-Jobfarm-Streams"

_CHUNK_BYTES: Final = 65_536
# What a browser may show in a page of ours. All else is for saving: a worker chooses what is in a file.
_SHOWN: Final = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".txt": "text/plain; charset=utf-8",
}


class WorkerKey(HttpBearer):
    """A worker's key, as `manage.py create_worker` or the admin showed it once."""

    def __call__(self, request: HttpRequest) -> Worker:
        """The worker whose key came with the request. Raises InvalidKey, also when there is none."""
        return operations.authenticate(bearer(request.headers.get("Authorization", "")))

    def authenticate(self, request: HttpRequest, token: str) -> Worker:  # noqa: ARG002 (the base class wants both)
        """The worker with this key. Raises InvalidKey."""
        return operations.authenticate(token)


def bearer(authorization: str) -> str:
    """The key in an Authorization header. Raises InvalidKey if it holds none."""
    scheme, _, key = authorization.strip().partition(" ")
    if scheme.lower() != "bearer" or not key.strip():
        raise InvalidKey
    return key.strip()


class JobIdConverter:
    """A job's id in a path. What bigint cannot hold matches nothing: 404, as for any unknown job."""

    regex = "[0-9]{1,19}"

    def to_python(self, value: str) -> int:
        """The id; raises ValueError, which means no match, when there cannot be one."""
        number = int(value)
        if not 1 <= number <= BIGINT:
            raise ValueError(value)
        return number

    def to_url(self, value: int) -> str:
        """The id as text."""
        return str(value)


register_converter(JobIdConverter, "jobid")


def refuse_unknown_parameters(request: HttpRequest, known: Iterable[str]) -> None:
    """Raise InvalidValue if the query string holds a parameter that is not `known`."""
    for name in request.GET.keys() - set(known):
        raise InvalidValue(field=name, why="there is no such parameter")


def count_submitted(request: HttpRequest, user: User, *, jobs: int = 1) -> None:
    """Take so many jobs from what this person, and the API token that came with the request, may submit.

    Before anything is stored, and whatever becomes of it then. Raises RateLimited, and CountExceedsLimit for more
    than may ever come at once.
    """
    asks = [Ask(name=limits.SUBMIT_USER, key=f"user:{user.pk}", count=jobs)]
    if (token := people.token_id(request)) is not None:
        asks.append(Ask(name=limits.SUBMIT_TOKEN, key=f"token:{token}", count=jobs))
    ratelimits.limit_all(asks, throws=True)


def count_empty_claim(worker: Worker) -> None:
    """Count a claim of this worker that would not wait and found nothing. Raises RateLimited.

    Only afterwards: a job that is there is never kept from the worker that may have it.
    """
    ratelimits.limit(limits.EMPTY_CLAIMS, key=f"worker:{worker.pk}", throws=True)


def waits_for(interest: Interest) -> str:
    """The note that says what an unanswered claim waits for."""
    return json.dumps({"queues": interest.queues, "owner": interest.owner_id})


def read_waits_for(note: str) -> Interest:
    """What `waits_for` wrote."""
    said = json.loads(note)
    return Interest(queues=tuple(said["queues"]), owner_id=said["owner"])


def received(request: HttpRequest) -> TemporaryUploadedFile:
    """The body of a request in a temporary file, which the caller closes. Raises PayloadTooLarge."""
    limit = settings.JOBFARM["FILE_BYTES"]
    upload = TemporaryUploadedFile("upload", "application/octet-stream", 0, None)
    size = 0
    while chunk := request.read(_CHUNK_BYTES):
        size += len(chunk)
        if size > limit:
            upload.close()
            raise PayloadTooLarge(what="file", size=size, limit=limit)
        upload.write(chunk)
    upload.size = size
    upload.seek(0)
    return upload


def sent(request: HttpRequest, stored: ResultFile) -> HttpResponseBase:
    """A result file as a response: pictures and plain text to look at, all else to save. Raises NotFound."""
    etag = f'"{stored.sha256}"'
    if request.headers.get("If-None-Match") == etag:
        return HttpResponseNotModified(headers={"ETag": etag})
    try:
        content = default_storage.open(stored.stored_as)
    except FileNotFoundError:
        raise NotFound from None
    shown = _SHOWN.get(PurePath(stored.name).suffix.lower())
    disposition = "inline" if shown else "attachment"
    return StreamingHttpResponse(
        # Django warns of a synchronous iterator under ASGI, and of the other kind elsewhere.
        _AsynchronousChunks(content) if isinstance(request, ASGIRequest) else _chunks(content),
        content_type=shown or "application/octet-stream",
        headers={
            "Content-Length": str(stored.size),
            "Content-Disposition": f'{disposition}; filename="{stored.name}"',
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "private, no-cache",
            "ETag": etag,
        },
    )


def _chunks(content: "File[bytes]") -> Iterator[bytes]:
    with content:
        yield from content.chunks(_CHUNK_BYTES)


class _AsynchronousChunks:
    """The pieces of a file, each read in a thread. Django closes it when the response is over."""

    def __init__(self, content: "File[bytes]") -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await asyncio.to_thread(self._content.read, _CHUNK_BYTES):
            yield chunk

    def close(self) -> None:
        """Close the file."""
        self._content.close()
