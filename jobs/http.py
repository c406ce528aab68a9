"""What HTTP adds: keys of workers, ids in paths, how much may be asked, files both ways, notes to those who wait
outside of Django."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import Any, Final, Protocol, runtime_checkable

from django.conf import settings
from django.contrib.auth.models import User
from django.core import signing
from django.core.files.base import File
from django.core.files.storage import default_storage, storages
from django.core.files.uploadedfile import TemporaryUploadedFile
from django.core.handlers.asgi import ASGIRequest
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, HttpResponseRedirect
from django.http.response import HttpResponseBase, StreamingHttpResponse
from django.urls import register_converter, reverse
from ninja.security import APIKeyQuery, HttpBearer
from pydantic import BaseModel

from accounts import http as people
from core import api, pages
from core.values import BIGINT
from jobs import limits, operations
from jobs.domain import files, labels
from jobs.domain.changes import Wanted
from jobs.errors import InvalidKey, LinkRanOut, NoSuchRange, NotFound, PayloadTooLarge
from jobs.models import JobQuerySet, ResultFile, ViewToken, Worker
from jobs.protocol.jobs import API
from jobs.queries import bulks, reads
from jobs.queries.reads import Interest
from observing import fields
from ratelimits import operations as ratelimits
from ratelimits.operations import LimitRequest

WAIT: Final = "X-Wait"
_VIEW: Final = "_jobs_view_token"

SIGNED_FOR_S: Final = 300  # how long a signed link to a file shows it
_SIGNED_FOR: Final = "jobs.file"  # what the signature is about: no other of the site's passes for one
_CHUNK_BYTES: Final = 65_536
refuse_unknown_parameters: Final = api.refuse_unknown_parameters


class WorkerKey(HttpBearer):
    """A worker's key, as `manage.py create_worker` or the admin showed it once."""

    def __init__(self, *, recognizes: bool = False) -> None:
        """`recognizes`: for calls that look at the key themselves (`operations.rechecked`)."""
        super().__init__()
        self._recognizes = recognizes

    def __call__(self, request: HttpRequest) -> Worker:
        """The worker whose key came with the request. Raises InvalidKey, also when there is none."""
        worker = self.authenticate(request, bearer(request.headers.get("Authorization", "")))
        fields.note(worker=worker.name)
        return worker

    def authenticate(self, request: HttpRequest, token: str) -> Worker:  # noqa: ARG002 (the base class wants both)
        """The worker with this key, as this process may remember it where that will do. Raises InvalidKey."""
        return operations.recognize(token) if self._recognizes else operations.authenticate(token)


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
        return str(value)


register_converter(JobIdConverter, "jobid")


def count_submitted(
    request: HttpRequest, user: User, *, jobs: int = 1, more: Sequence[LimitRequest] = ()
) -> dict[str, ratelimits.Answer]:
    """Take so many jobs from what this person, and the request's API token, may submit, and `more`; the answer of each
    limit. Before anything is stored, whose commit flushes the count along. Raises RateLimited, and CountExceedsLimit
    for more than may ever come at once."""
    asks = [LimitRequest(name=limits.SUBMIT_USER, key=f"user:{user.pk}", count=jobs)]
    if (token := people.let_in_by(request)) is not None:
        asks.append(LimitRequest(name=limits.SUBMIT_TOKEN, key=f"token:{token.pk}", count=jobs))
    asks.extend(more)
    answers = ratelimits.limit_all(asks, throws=True, waits_for_disk=False).each
    return {ask.name: answer for ask, answer in zip(asks, answers, strict=True)}


def may_wait(request: HttpRequest) -> bool:
    """Whether what this request submits may wait for the next window of a budget: `X-Wait: 1`."""
    return request.headers.get(WAIT, "").lower() in {"1", "true"}


def repeatable(
    request: HttpRequest, user: User, key: str | None, body: BaseModel | None = None
) -> operations.Repeatable | None:
    """This request, by its path and its parsed body, if it came with an Idempotency-Key. Raises InvalidJson."""
    return None if key is None else operations.repeatable(user, key, [request.path, body])


def of_form(request: HttpRequest, user: User, *more: Any) -> operations.Repeatable | None:
    """What a form asks for, and `more`. Sent again as it was shown it is the same request: Django's field against other
    sites is another one each time that a form is shown. None without that, and for a script, whose page stays."""
    if "csrfmiddlewaretoken" not in request.POST or getattr(request, "htmx", False):
        return None
    return operations.repeatable(user, None, [request.get_full_path(), dict(request.POST.lists()), more])


def once(request: HttpRequest, user: User, make: Callable[[], int]) -> int:
    """The id that `make` returns; of a form that is sent again, the first one. Raises as `operations.once`."""
    [made] = operations.done_once(of_form(request, user), lambda: [make()])
    return made


class Noted(HttpResponse):
    """An answer of which somebody may wait for more, outside of Django (jobs.waiting): the `note` says for what."""

    def __init__(self, *content: object, note: Any, **options: Any) -> None:
        super().__init__(*content, **options)
        self.note = note


class ViewKey(APIKeyQuery):
    """The key of a view token in an address, for calls that narrow what they show to that (`visible_to`)."""

    param_name = "token"
    scope = "read"

    def authenticate(self, request: HttpRequest, key: str | None) -> User | None:
        """Who made the token; None where there is none in the address. Raises InvalidViewToken."""
        if key is None:
            return None
        token = operations.view_token(key)
        request.__dict__[_VIEW] = token
        return token.by


def view_of(request: HttpRequest) -> ViewToken | None:
    """The view token that let this request in."""
    token: ViewToken | None = request.__dict__.get(_VIEW)
    return token


def visible_to(request: HttpRequest) -> JobQuerySet:
    """The jobs that the caller may look at; of one with a view token those that it is for alone, as far as its maker
    may share them."""
    jobs, token = reads.visible_to(api.caller(request)), view_of(request)
    if token is None:
        return jobs
    if not bulks.reaches_all(token.by):
        jobs = jobs.filter(owner=token.by)
    return jobs.filter(Q(pk=token.job_id) if token.tag is None else Q(tags__contains=[token.tag]))


@pages.on_response
def for_other_sites(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    """Let pages of any site read what a view token in the address opens: without it, such an address opens nothing."""
    if request.META["QUERY_STRING"] and ViewKey.param_name in request.GET and request.path.startswith(f"{API}/"):
        response.headers["Access-Control-Allow-Origin"] = "*"
    return response


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """What a claim that got nothing waits for, and how long; and the topics after which its worker's key may open
    nothing any more."""

    interest: Interest
    worker_id: int
    wait_s: float

    @property
    def rights(self) -> list[str]:
        owner_id = self.interest.owner_id
        return [f"worker:{self.worker_id}", *([] if owner_id is None else [f"user:{owner_id}"])]

    @property
    def is_drained(self) -> bool:
        """Whether the worker was drained when it asked: then it waits for no queue's jobs."""
        return not self.interest.queues


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedBy:
    """What this person may follow."""

    user_id: int
    expires_at: datetime | None = None  # of the view token that it is followed by

    @property
    def is_view(self) -> bool:
        """Whether it is shown to whoever has a link, without what is its owner's."""
        return self.expires_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed(FollowedBy):
    """Jobs whose events they may follow; `are_named`: each event says of which job it is."""

    job_ids: Sequence[int]
    are_named: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedMany(FollowedBy):
    """Jobs that match, of which they may follow all that change."""

    wanted: Wanted


def answered(body: BaseModel, *, status: int = 200, note: Any = None) -> HttpResponse:
    """An answer with this body as JSON, written once. Given the model itself, django-ninja checks all of it a second
    time, and makes Python's values of it before it writes them: of an answer with fifty jobs that is most of its
    time."""
    content_type = "application/json; charset=utf-8"
    return Noted(body.model_dump_json(), note=note, status=status, content_type=content_type)


def count_empty_claim(worker: Worker) -> None:
    """Count a claim of this worker that would not wait and found nothing. Raises RateLimited.

    Only afterwards: a job that is there is never kept from the worker that may have it.
    """
    ask = LimitRequest(name=limits.EMPTY_CLAIMS, key=f"worker:{worker.pk}")
    ratelimits.limit_all([ask], throws=True, waits_for_disk=False)


def conditions(request: HttpRequest, header: str) -> dict[str, str] | None:
    """The conditions on labels in this header, as `vram>=16, region=home`; None without it. Raises InvalidValue."""
    if (text := request.headers.get(header)) is None:
        return None
    pairs = [pair for pair in text.split(",") if pair.strip()]
    return labels.conditions(labels.read_pairs(pairs, field=header), field=header)


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


@runtime_checkable
class Elsewhere(Protocol):
    """A storage whose files are fetched from where they lie, not through this server (jobfarm.s3)."""

    def signed_address(self, name: str, *, content_type: str, disposition: str, for_s: int) -> str:
        """An address that shows this one file, as this type and in this manner, for so many seconds."""


class Stored(Protocol):
    """A result file or an upload, as its row says."""

    name: str
    stored_as: str
    size: int
    sha256: str


def sent(request: HttpRequest, stored: Stored) -> HttpResponseBase:
    """A file as a response: pictures, sounds, films and plain text to look at, else to save. Raises NotFound.

    One range of it where the request asks for one (206, or 416 behind its end). From a storage elsewhere it is a
    redirect to a signed address; there too, type and manner are ours to say.
    """
    shown = files.SHOWN.get(PurePath(stored.name).suffix.lower())
    content_type = shown or files.UNKNOWN_TYPE
    disposition = f'{"inline" if shown else "attachment"}; filename="{stored.name}"'
    storage = storages["default"]
    if isinstance(storage, Elsewhere):
        address = storage.signed_address(
            stored.stored_as, content_type=content_type, disposition=disposition, for_s=SIGNED_FOR_S
        )
        # A browser that shows the file again meanwhile asks nobody; later it comes here for a fresh address.
        return HttpResponseRedirect(address, headers={"Cache-Control": f"private, max-age={SIGNED_FOR_S - 60}"})
    return _streamed(request, stored, content_type=content_type, disposition=disposition)


def signed_path(stored: ResultFile) -> str:
    """The path of a link that shows this file to whoever has it, for five minutes."""
    token = signing.dumps([stored.job_id, stored.attempt, stored.name], salt=_SIGNED_FOR)
    return reverse("jobs:signed_file", args=[token])


def read_signed(token: str) -> tuple[int, int, str]:
    """Job, attempt and name of the file that a signed link is about. Raises LinkRanOut: also for one we never made."""
    try:
        job_id, attempt, name = signing.loads(token, salt=_SIGNED_FOR, max_age=SIGNED_FOR_S)
    except (signing.BadSignature, ValueError) as error:
        raise LinkRanOut from error
    return job_id, attempt, name


def _streamed(request: HttpRequest, stored: Stored, *, content_type: str, disposition: str) -> HttpResponseBase:
    etag = f'"{stored.sha256}"'
    if request.headers.get("If-None-Match") == etag:
        return HttpResponseNotModified(headers={"ETag": etag})
    is_same = request.headers.get("If-Range", etag) == etag  # else all of it is asked for
    try:
        part = files.span(request.headers.get("Range", ""), size=stored.size) if is_same else None
    except NoSuchRange as refusal:
        return api.refused(refusal)
    content = _opened(stored)
    span = part or files.Span(start=0, length=stored.size)
    content.seek(span.start)
    range_of = f"bytes {span.start}-{span.start + span.length - 1}/{stored.size}"
    return StreamingHttpResponse(
        # Django warns of a synchronous iterator under ASGI, and of the other kind elsewhere.
        _AsynchronousChunks(content, span) if isinstance(request, ASGIRequest) else _chunks(content, span),
        status=206 if part else 200,
        content_type=content_type,
        headers={
            "Content-Length": str(span.length),
            "Content-Disposition": disposition,
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "private, no-cache",
            "Accept-Ranges": "bytes",
            "ETag": etag,
            **({"Content-Range": range_of} if part else {}),
        },
    )


def whole(stored: Stored, *, headers: Mapping[str, str]) -> StreamingHttpResponse:
    """All of a file as an answer with these headers, to be sent outside of Django. Raises NotFound."""
    chunks = _AsynchronousChunks(_opened(stored), files.Span(start=0, length=stored.size))
    return StreamingHttpResponse(chunks, headers={**headers, "Content-Length": str(stored.size)})


def _opened(stored: Stored) -> "File[bytes]":
    try:
        return default_storage.open(stored.stored_as)
    except FileNotFoundError:
        raise NotFound("There is no such file.") from None


def _chunks(content: "File[bytes]", span: files.Span) -> Iterator[bytes]:
    with content:
        left = span.length
        while left and (chunk := content.read(min(left, _CHUNK_BYTES))):
            left -= len(chunk)
            yield chunk


class _AsynchronousChunks:
    """The pieces of a part of a file, each read in a thread. Django closes it when the response is over."""

    def __init__(self, content: "File[bytes]", span: files.Span) -> None:
        self._content = content
        self._left = span.length

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await asyncio.to_thread(self._content.read, min(self._left, _CHUNK_BYTES)):
            self._left -= len(chunk)
            yield chunk

    def close(self) -> None:
        self._content.close()
