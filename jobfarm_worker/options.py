"""Options of a worker, checked before anything is connected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from jobfarm_worker.errors import BadOption
from jobfarm_worker.farm import Transport
from jobfarm_worker.prefetching import MOST_READY

VERSION = "0.1.0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one worker; made by `checked`, so they make sense."""

    url: str
    key: str
    queues: tuple[str, ...] | None
    concurrency: int
    transport: Transport
    grace_s: float
    prefetch: int

    @property
    def socket_url(self) -> str:
        """Where the farm's worker socket is."""
        return "ws" + self.url.removeprefix("http") + "/ws/worker/"

    def headers(self, *, name: str) -> dict[str, str]:
        """The headers of every request; `name` identifies this process to the operator."""
        plain = name.encode("ascii", "replace").decode().replace("\n", " ").replace("\r", " ")
        return {"Authorization": f"Bearer {self.key}", "User-Agent": f"jobfarm-worker/{VERSION} ({plain})"}


def checked(
    *,
    url: str,
    key: str,
    queues: Sequence[str] | None,
    concurrency: int,
    transport: Transport,
    grace_s: float,
    prefetch: int = MOST_READY,
) -> Options:
    """The options, tidied; raises BadOption with a sentence that says what to change."""
    if concurrency < 1:
        raise BadOption(f"A worker runs at least one job at a time, not {concurrency}.")
    if transport not in {"auto", "ws", "http"}:
        raise BadOption(f"The transport is auto, ws or http, not {transport!r}.")
    if isinstance(queues, str):
        raise BadOption("Queues are a list of names, not one string.")
    if not grace_s >= 0:
        raise BadOption(f"The grace is a number of seconds from 0 up, not {grace_s}.")
    if prefetch < 0:
        raise BadOption(f"A worker keeps 0 jobs or more ready, not {prefetch}.")
    return Options(
        url=_url(url),
        key=_key(key),
        queues=tuple(queues) if queues else None,
        concurrency=concurrency,
        transport=transport,
        grace_s=grace_s,
        prefetch=prefetch,
    )


def _url(url: str) -> str:
    try:
        parts = urlsplit(url.strip())
        is_good = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good or parts.query or parts.fragment:
        raise BadOption(f"{url!r} is not the address of a farm; it looks like http://127.0.0.1:8000.")
    return url.strip().rstrip("/")


def _key(key: str) -> str:
    plain = key.strip()
    if not plain:
        raise BadOption("A worker needs its key; the command `create_worker NAME` of the farm prints one.")
    if not plain.isascii() or not plain.isprintable() or " " in plain:
        raise BadOption(
            "The key holds characters that no key has; was it copied completely, and nothing else?"
        )
    return plain
