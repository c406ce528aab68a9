"""Which of several hosts of DATABASE_URL is tried first: the one that took writes when this process last connected.

libpq goes through them in the order of the URL. After a failover a frozen host that stands first would cost each new
connection its whole connect_timeout, and one that came back as a second primary would be chosen (docs/adr/0072).
"""

from collections.abc import Mapping
from typing import Any

PORT = "5432"  # libpq's, where none is named
_last: dict[str, tuple[str, str]] = {}  # by the hosts as the URL has them: host and port of the one that took writes
_frozen: set[tuple[str, str]] = set()


def ordered(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The same parameters, with the host first that was remembered for them, and those last that were frozen when
    somebody last looked. Those with `hostaddr` stay as they are."""
    last, pairs = _last.get(str(parameters.get("host"))), _pairs(parameters)
    if not {last, *_frozen}.intersection(pairs) or len(pairs) == 1 or parameters.get("hostaddr"):
        return dict(parameters)
    pairs.sort(key=lambda pair: (pair in _frozen, pair != last))
    hosts, ports = zip(*pairs, strict=True)
    return {**parameters, "host": ",".join(hosts), "port": ",".join(ports)}


def each(parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
    addresses = str(parameters.get("hostaddr") or "").split(",")
    if len(addresses) > 1 or not parameters.get("host"):
        return [dict(parameters)]
    return [{**parameters, "host": host, "port": port} for host, port in _pairs(parameters)]


def remember(hosts: str, *, host: str, port: int | str) -> None:
    """Of these hosts, as the URL has them, this one took a connection that writes."""
    _last[hosts] = (host, str(port))
    _frozen.discard(_last[hosts])


def avoid(*, host: str, port: int | str) -> None:
    """It is frozen: until it takes a connection again, others are tried before it."""
    _frozen.add((host, str(port)))


def _pairs(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    hosts = str(parameters.get("host") or "").split(",")
    ports = [port or PORT for port in str(parameters.get("port") or "").split(",")]
    return list(zip(hosts, ports if len(ports) == len(hosts) else ports * len(hosts), strict=False))
