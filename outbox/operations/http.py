"""Requests to addresses that people name: no way into the farm's own network, and no receiver that holds a sender up.

A name is resolved once for each connection, every address is judged, and the connection goes to an address that was
judged, so a name that is answered differently a moment later changes nothing; TLS verifies the name all the same
(docs/adr/0078). No proxies of the environment, no redirects, no cookies.
"""

import asyncio
import socket
import ssl
import time
from collections import Counter
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any, Final

import httpcore
from django.conf import settings

from outbox.domain import addresses
from outbox.domain.addresses import KEPT_BYTES, Answer, Network

_RESOLVERS: Final = 100  # threads: for all names of four owners, whose name servers answer nobody, and more
_KEPT_ALIVE_S: Final = 10.0
_MOST_POOLS: Final = 200
_MOST_ADDRESSES: Final = 4  # of one name are tried
_LONGEST_ERROR: Final = 300
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
_lookups: Final[dict[tuple[str, int], Future[Any]]] = {}


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a name, as the system's resolver has them. Raises OSError. While a name is looked up, which goes
    on after the request that asked was given up, others that ask for it wait for the same answer."""
    if (lookup := _lookups.get((host, port))) is None:
        lookup = _resolvers().submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM)
        _lookups[host, port] = lookup
        lookup.add_done_callback(lambda _: _lookups.pop((host, port), None))
    entries = await asyncio.shield(asyncio.wrap_future(lookup))
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


class Client:
    """Posts to many addresses at once; connections are kept for a few seconds. Belongs to one event loop."""

    def __init__(
        self, *, connections: int = 100, allowed: Iterable[Network] | None = None, resolve: Resolve = resolve,
        tls: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        networks = settings.OUTBOX["ALLOWED_NETWORKS"] if allowed is None else allowed
        self._options: dict[str, Any] = {
            "ssl_context": tls or _tls(),
            "max_connections": connections,
            "max_keepalive_connections": connections,
            "keepalive_expiry": _KEPT_ALIVE_S,
            "network_backend": _GuardedNetwork(tuple(networks), resolve),
        }
        # One for each URL: a pool looks at all its connections for each request, which 200 of them make dear.
        self._pools: dict[str, httpcore.AsyncConnectionPool] = {}
        self._uses: Counter[str] = Counter()

    async def post(
        self, url: str, body: bytes, *, headers: Mapping[str, str], timeout_s: float | None = None
    ) -> Answer:
        """Post these bytes; the deadline is one for all of it: name, connection, request, and what is kept of the
        answer. Raises BadUrl."""
        addresses.host_of(url)
        deadline_s = settings.OUTBOX["TIMEOUT_S"] if timeout_s is None else timeout_s
        began_at = time.monotonic()
        self._uses[url] += 1
        try:
            async with asyncio.timeout(deadline_s):
                fields = await self._post(url, body, headers)
        except Exception as error:  # httpcore's, h11's, OpenSSL's, the system's: what a stranger's server makes happen
            fields = {"error": _sentence(error, deadline_s)}
        finally:
            self._uses[url] -= 1
        await self._close_unused()
        return Answer(duration_ms=round((time.monotonic() - began_at) * 1000), **fields)

    async def _post(self, url: str, body: bytes, headers: Mapping[str, str]) -> dict[str, Any]:
        everything = {"user-agent": "jobfarm", "accept": "*/*", **headers}
        async with self._pool_of(url).stream("POST", url, headers=list(everything.items()), content=body) as response:
            assert isinstance(response.stream, AsyncIterable)
            return {
                "status": response.status,
                "body": await _beginning(response.stream),
                "headers": {
                    name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers
                },
            }

    async def aclose(self) -> None:
        for pool in self._pools.values():
            await pool.aclose()

    def _pool_of(self, url: str) -> httpcore.AsyncConnectionPool:
        pool = self._pools.pop(url, None) or httpcore.AsyncConnectionPool(**self._options)
        self._pools[url] = pool  # the last, for whoever looks for those that nobody used for long
        return pool

    async def _close_unused(self) -> None:
        unused = [url for url in self._pools if not self._uses[url]]
        for url in unused[: max(0, len(self._pools) - _MOST_POOLS)]:
            if url in self._pools and not self._uses[url]:  # meanwhile others may have begun, or closed it
                del self._uses[url]
                await self._pools.pop(url).aclose()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Unreachable(Exception):
    """This host has no address, or one of a private network, and the farm sends nothing there."""

    # Which of the two is not said: whoever adds endpoints could ask which names there are inside.


class _GuardedNetwork(httpcore.AsyncNetworkBackend):
    """Connects to what the name stood for when it was judged, and to nothing else."""

    def __init__(self, allowed: Sequence[Network], resolve: Resolve) -> None:
        self._allowed, self._resolve = allowed, resolve
        self._network = httpcore.AnyIOBackend()

    async def connect_tcp(self, host: str, port: int, *args: Any, **kwargs: Any) -> httpcore.AsyncNetworkStream:
        """Try the addresses of a name in turn. One that is refused refuses them all."""
        failure: Exception = _Unreachable()
        for address in await self._addresses(host, port):
            try:
                return await self._network.connect_tcp(address, port, *args, **kwargs)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure

    async def _addresses(self, host: str, port: int) -> Sequence[str]:
        try:
            resolved = (await self._resolve(host, port))[:_MOST_ADDRESSES]
        except (OSError, UnicodeError):
            raise _Unreachable from None
        if any(addresses.is_refused(address, allowed=self._allowed) for address in resolved):
            raise _Unreachable
        return resolved

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def _beginning(stream: AsyncIterable[bytes]) -> bytes:
    kept = b""
    async for piece in stream:
        kept += piece
        if len(kept) >= KEPT_BYTES:
            break  # the pool closes a connection whose answer was not read to its end
    return kept[:KEPT_BYTES]


def _sentence(error: Exception, deadline_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"It did not answer within {deadline_s:g} s."
    if isinstance(error, _Unreachable):
        return str(type(error).__doc__)
    sentence = str(error) or type(error).__name__
    return sentence.encode(errors="replace").decode().replace("\x00", "�")[:_LONGEST_ERROR]


@cache
def _tls() -> ssl.SSLContext:
    import httpx  # noqa: PLC0415 (0.1 s, which no process need spend when it starts)

    return httpx.create_ssl_context()


@cache
def _resolvers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=_RESOLVERS, thread_name_prefix="outbox-names")
