"""The eight addresses that adapters post to.

What is cheap comes first: method, size, media type, the form of the signature's headers; then the body, the signature,
the limit of source and address, and the transaction that stores. What is refused before a secret fitted takes from a
limit of its own; where that is used up nobody asks the database about it. A body of more than a megabyte has a lane of
its own, in which no other waits for it. Senders read the status alone: 2xx is stored, 4xx is theirs to mend, and
trouble of our own is always 503, since some of them give up on 4xx. No session, no cookie, no redirect (docs/adr/0021).
"""

import asyncio
import hashlib
import ipaddress
import json
import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Final
from urllib.parse import parse_qsl

from django.conf import settings
from django.db import Error as DatabaseError
from psycopg_pool import PoolTimeout

from core.asgi import ClientGone, Receive, Scope, Send, answer as respond
from core.recent import Recent
from core.refusal import Refusal
from live import addresses
from observing import numbers
from postgres import connections
from ratelimits.errors import RateLimited
from webhooks import errors, limits
from webhooks.domain.deliveries import Source
from webhooks.http import admission, child_process
from webhooks.http.admission import MOST_ADDRESSES, Admissions, BatchWriter, Refusals, admit
from webhooks.operations import ingest, secrets
from webhooks.operations.ingest import Kept, Refused, Verdict
from webhooks.queries.inbox import NewDelivery
from webhooks.sources import configs
from webhooks.sources.configs import Opened, opened
from webhooks.sources.requests import Request, Verified

log = logging.getLogger(__name__)

# Judged on the event loop itself: less than a millisecond. What is larger goes to a thread.
SMALL_BYTES: Final = 32 << 10
LARGE_AT_ONCE: Final = 2  # bodies that are opened apart: each may take a processor for seconds
RETRY_AFTER_S: Final = 30  # for trouble of our own
_MOST_FIELDS: Final = 20  # of the address's query


@dataclass(slots=True, kw_only=True)
class _Call:
    """One request, before its body. `is_charged`: it took from the limit of what no secret signed."""

    source: Source
    method: str
    headers: Mapping[str, str]
    query: Mapping[str, str]
    address: str | None
    is_charged: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Webhooks:
    """An ASGI application that serves the eight addresses. Belongs to one event loop."""

    def __init__(self) -> None:
        self._admissions = Admissions(admit)
        # Those that were good: they are looked at again each time; only whether they may be is known.
        self._bearers: Recent[bool] = Recent(for_s=math.inf, most=MOST_ADDRESSES)
        self._gatherer, self._gatherer_of_large = BatchWriter(ingest.keep), BatchWriter(ingest.keep)
        self._large = asyncio.Semaphore(LARGE_AT_ONCE)
        self._refusals = Refusals(ingest.count_refusals)
        self._room = admission.Room()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        source = configs.PATHS[scope["path"].removeprefix(scope.get("root_path", ""))]
        body = admission.Body(receive, limit=configs.CONFIGS[source].body_limit)
        try:
            answer = await self._serve(_call(source, scope), body)
        except ClientGone:
            return
        numbers.WEBHOOKS.labels(source.value, str(answer.status)).inc()
        await respond(
            receive, send, status=answer.status, headers=answer.headers, body=answer.body, is_read=body.is_read
        )

    async def _serve(self, call: _Call, body: admission.Body) -> _Answer:
        try:
            return await self._answered(call, body)
        except ClientGone:
            raise
        except Exception as error:
            # Whatever it is, it is ours: adapters come again after 503, and some never after 4xx.
            if isinstance(error, DatabaseError | PoolTimeout | OSError):
                log.warning("A request of %s could not be stored: %s", call.source, str(error) or type(error).__name__)
            else:
                log.exception("A request of %s could not be stored", call.source)
            return _TROUBLE

    async def _answered(self, call: _Call, body: admission.Body) -> _Answer:
        try:
            _check_head(call)
            ingest.check_head(call.source, call.headers, now=_now())
            return _answer(call, await self._receive(call, body))
        except (errors.WebhooksError, RateLimited) as error:
            return _refused(await self._refusal(call, error))

    async def _admit(self, call: _Call, limit: str) -> None:
        key = _limited_by(call.address)
        wait = await self._admissions.admit(limit, key)
        if wait is not None:
            raise RateLimited(name=limit, key=key, retry_after=wait)

    async def _admit_unsigned(self, call: _Call) -> None:
        if not call.is_charged:
            call.is_charged = True
            await self._admit(call, limits.UNSIGNED[call.source])

    async def _refusal(self, call: _Call, error: Refusal) -> Refusal:
        """What a request is answered that was refused: by a flood's limit, if it is one; others are counted."""
        if not isinstance(error, _COUNTED):
            return error
        try:
            async with _in_time():
                await self._admit_unsigned(call)
        except RateLimited as limited:
            return limited
        await self._count(call, error)
        return error

    async def _receive(self, call: _Call, body: admission.Body) -> Kept:
        with self._room.of(call.source, _limited_by(call.address)) as grow:
            request = Request(headers=call.headers, body=await body.read(grow), query=call.query)
            if len(request.body) <= child_process.LARGE_BYTES:
                async with _in_time():
                    return await self._keep(call, request, self._gatherer)
            async with asyncio.timeout(settings.WEBHOOKS["ANSWER_WITHIN_S"]), self._large:
                return await self._keep(call, request, self._gatherer_of_large)

    async def _keep(self, call: _Call, request: Request, writer: BatchWriter) -> Kept:
        signed = await self._signed(call, request)
        await self._admit(call, limits.SIGNED[call.source])
        opened = await _opened(call, request, signed)
        kept = await writer.put(_delivery(call, request, signed, opened))
        if kept.verdict is Verdict.UNSIGNED:
            signed = await _signed_anew(call, request)
            kept = await writer.put(_delivery(call, request, signed, opened))
        if kept.verdict is Verdict.UNSIGNED:
            raise errors.BadSignature(reason="retired_secret")
        return kept

    async def _signed(self, call: _Call, request: Request) -> Verified:
        """By the secrets that this process knows; if none of them fits, by those that the database has now."""
        if keys := secrets.known_keys(call.source):
            verify = partial(ingest.verify, call.source, request, keys=keys, now=_now())
            try:
                return verify() if len(request.body) <= SMALL_BYTES else await connections.run(verify)
            except errors.BadSignature as error:
                if error.reason != "bad_signature" and call.source is not Source.SANDBOX_HOOKS:
                    raise
        bearer = hashlib.sha256(call.headers.get("authorization", "").encode()).hexdigest()
        if not self._bearers.get(bearer):  # which a flood from the same address does not know
            await self._admit_unsigned(call)
        signed = await _signed_anew(call, request)
        if signed.sandbox is not None:
            self._bearers.keep(bearer, True)
        return signed

    async def _count(self, call: _Call, error: Refusal) -> None:
        reason = error.reason if isinstance(error, errors.BadSignature) else error.code
        size = _announced(call)
        refused = Refused(
            source=call.source, reason=reason, address=call.address, size=size, header_names=list(call.headers)
        )
        try:
            async with _in_time():
                await self._refusals.count(refused)
        except Exception:
            log.exception("A refused request of %s could not be counted", call.source)


def _refused(error: Refusal) -> _Answer:
    body = json.dumps(error.body, default=str).encode()
    headers = {"Allow": "POST"} if isinstance(error, errors.MethodNotAllowed) else error.headers
    return _Answer(status=error.http_status, body=body, headers=headers)


def _in_time() -> asyncio.Timeout:
    """Half of the time there is for an answer. What takes longer may be stored all the same: when it comes again it is
    a duplicate. A pool without a database keeps its callers waiting for ten seconds, and GitHub hangs up by then."""
    return asyncio.timeout(settings.WEBHOOKS["ANSWER_WITHIN_S"] / 2)


def _call(source: Source, scope: Scope) -> _Call:
    client = scope.get("client")
    try:
        address = str(ipaddress.ip_address(client[0])) if client else None
    except ValueError:
        address = None
    return _Call(source=source, method=scope["method"], headers=_headers(scope), query=_query(scope), address=address)


def _headers(scope: Scope) -> Mapping[str, str]:
    """By lower-case name. One that came twice is joined, so that no reader takes the first and another the last."""
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def _query(scope: Scope) -> Mapping[str, str]:
    try:
        text = scope.get("query_string", b"").decode("ascii")
        return dict(parse_qsl(text, max_num_fields=_MOST_FIELDS)) if text else {}
    except ValueError:
        return {}


def _check_head(call: _Call) -> None:
    if call.method != "POST":
        raise errors.MethodNotAllowed
    sender = configs.CONFIGS[call.source]
    if _announced(call) > sender.body_limit:
        raise errors.TooLarge(limit=sender.body_limit)
    media = call.headers.get("content-type", sender.media_types[0]).partition(";")[0].strip().lower()
    is_plain = call.headers.get("content-encoding", "identity").strip().lower() == "identity"
    if not is_plain or (media not in sender.media_types and not media.endswith("+json")):
        raise errors.UnsupportedMediaType(expected=" or ".join(sender.media_types))


def _announced(call: _Call) -> int:
    length = call.headers.get("content-length", "")
    return int(length) if length.isascii() and length.isdigit() else 0


def _limited_by(address: str | None) -> str:
    return f"address:{addresses.network(address) or 'unknown'}"


async def _signed_anew(call: _Call, request: Request) -> Verified:
    return await connections.run(partial(ingest.verify_anew, call.source, request, now=_now()))


async def _opened(call: _Call, request: Request, signed: Verified) -> Opened:
    if len(request.body) > child_process.LARGE_BYTES:
        return await child_process.open_in_child(call.source, request, verified=signed)
    open_body = partial(opened, call.source, request, verified=signed)
    return open_body() if len(request.body) <= SMALL_BYTES else await connections.run(open_body)


def _delivery(call: _Call, request: Request, signed: Verified, opened: Opened) -> NewDelivery:
    return ingest.delivery(call.source, request, signed, opened, address=call.address, now=_now())


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 (an edge reads the clock; adapters sign by theirs, and NTP keeps both)


def _answer(call: _Call, kept: Kept) -> _Answer:
    if kept.verdict is Verdict.REJECTED:
        refusal = {"error": "rejected", "message": kept.note or "The body cannot be read."}
        return _Answer(status=400, body=json.dumps(refusal).encode())
    if call.source is Source.SANDBOX_HOOKS:
        return _EMPTY  # whoever reads it is an agent, which any other word in it would steer
    return _STORED[kept.verdict]


_COUNTED: Final = (
    errors.BadSignature,
    errors.TooLarge,
    errors.TooSlow,
    errors.UnsupportedMediaType,
    errors.NoSecret,
    errors.Busy,
)
_EMPTY: Final = _Answer(status=200, body=b"{}")
_STORED: Final[Mapping[Verdict, _Answer]] = {
    verdict: _Answer(status=200, body=json.dumps({"status": verdict.value}).encode()) for verdict in Verdict
}
_TROUBLE: Final = _Answer(
    status=503,
    body=json.dumps({"error": "unavailable", "message": "Not stored. Send it again later."}).encode(),
    headers={"Retry-After": str(RETRY_AFTER_S)},
)
