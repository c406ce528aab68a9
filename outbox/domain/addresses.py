"""Where a message may go, and what its receiver answers.

Refused are the blocks that IANA's special-purpose registries (RFC 6890) do not call globally reachable, multicast, and
what carries an IPv4 address inside an IPv6 one, which is judged as the address it carries. Written down here: what
`ipaddress.is_global` calls so differs between Python's releases.
"""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

from outbox.errors import BadUrl

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
LONGEST_URL: Final = 2000
_SCHEMES: Final = frozenset({"http", "https"})
_REFUSED: Final[tuple[Network, ...]] = tuple(
    ip_network(block)
    for block in (
        "0.0.0.0/8",  # this network
        "10.0.0.0/8",  # private
        "100.64.0.0/10",  # behind a carrier's NAT
        "127.0.0.0/8",  # loopback
        "169.254.0.0/16",  # link-local, with the clouds' metadata at 169.254.169.254
        "172.16.0.0/12",  # private
        "192.0.0.0/24",  # protocol assignments, with Oracle's metadata at 192.0.0.192
        "192.0.2.0/24",  # documentation
        "192.88.99.0/24",  # relays of 6to4
        "192.168.0.0/16",  # private
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",  # documentation
        "203.0.113.0/24",  # documentation
        "224.0.0.0/4",  # multicast
        "240.0.0.0/4",  # reserved, and the broadcast address
        "::/96",  # unspecified, loopback, and IPv4-compatible
        "64:ff9b:1::/48",  # translated, for local use
        "100::/64",  # discarded
        "2001::/23",  # protocol assignments, Teredo
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
        "fc00::/7",  # private, with Amazon's metadata at fd00:ec2::254
        "fe80::/10",  # link-local
        "fec0::/10",  # site-local
        "ff00::/8",  # multicast
    )
)
_MAPPED: Final = IPv6Network("::ffff:0:0/96")
_TRANSLATED: Final = (IPv6Network("64:ff9b::/96"), IPv6Network("::ffff:0:0:0/96"))
_SIX_TO_FOUR: Final = IPv6Network("2002::/16")


def host_of(url: str) -> str:
    """Its host. Raises BadUrl: it is not http or https, has no host, names a user, or is too long."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018 (raises for a port that is none)
    except ValueError:
        raise BadUrl(reason="it cannot be read") from None
    host = parts.hostname or ""
    reason = _reason(url, scheme=parts.scheme, host=host, has_user="@" in parts.netloc)
    if reason is not None:
        raise BadUrl(reason=reason)
    return host


def is_refused(address: str, *, allowed: Iterable[Network]) -> bool:
    """Whether nothing is sent to this address: it is not of the public network, nor of one that the operator allows."""
    carried = _carried(ip_address(address.partition("%")[0]))
    return _is_in(carried, _REFUSED) and not _is_in(carried, allowed)


def is_named_by(host: str, hosts: Iterable[str]) -> bool:
    """Whether a list names this host: itself, `.example.org` for all below that name, or `*`."""
    name = host.lower().rstrip(".")
    return any(one in {"*", name} or (one.startswith(".") and name.endswith(one)) for one in hosts)


def _reason(url: str, *, scheme: str, host: str, has_user: bool) -> str | None:
    if len(url) > LONGEST_URL:
        return f"it has more than {LONGEST_URL} characters"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "it has characters that a URL writes with % or punycode"
    if scheme not in _SCHEMES:
        return "it begins with https:// or http://"
    if has_user:
        return "it names a user; a secret in an address ends up in logs"
    return None if host else "it names no host"


def _is_in(address: Address, blocks: Iterable[Network]) -> bool:
    return any(address.version == block.version and address in block for block in blocks)


def _carried(address: Address) -> Address:
    """The IPv4 address inside of an IPv6 one, which is where a packet to it may end up."""
    if isinstance(address, IPv4Address):
        return address
    if address in _MAPPED or any(address in block for block in _TRANSLATED):
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    if address in _SIX_TO_FOUR:
        return IPv4Address(int(address) >> 80 & 0xFFFF_FFFF)
    return address


# Standard Webhooks 1.0 ("Deliverability and reliability"): so many seconds after each failed attempt, 75 hours in all.
WAITS_S: Final = (5, 300, 1800, 7200, 18_000, 36_000, 50_400, 72_000, 86_400)
MOST_ATTEMPTS: Final = len(WAITS_S) + 1
JITTER: Final = 0.1  # up to a tenth longer, so that what failed together does not come together
LONGEST_RETRY_AFTER_S: Final = 86_400.0
_ASKS_TO_WAIT: Final = frozenset({429, 503})


def wait_s(*, attempts: int, retry_after_s: float | None, rng: random.Random) -> float | None:
    """Seconds until the next attempt after so many failed ones (1 is the first); None when that was the last. Not
    sooner than the receiver asked for (`retry_after_s`)."""
    if attempts >= MOST_ATTEMPTS:
        return None
    plain: float = WAITS_S[attempts - 1] * (1 + rng.uniform(0, JITTER))
    return max(plain, retry_after_s or 0.0)


def _until(value: str, *, now: datetime) -> float | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, OverflowError):  # a receiver writes what it likes: a year of twenty digits, say
        return None
    return None if moment.tzinfo is None else (moment - now).total_seconds()


KEPT_BYTES: Final = 4096  # of an answer; no more of it is read


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a request came to. `status` None: there was no answer, and `error` is the reason, without the address
    itself, whose path may be a secret. `headers` are named in lower case."""

    status: int | None = None
    error: str = ""
    duration_ms: int = 0
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def is_accepted(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace").replace("\x00", "�")

    def retry_after_s(self, *, now: datetime) -> float | None:
        """How long a receiver asks to be left alone: the Retry-After of a 429 or 503 (RFC 9110, 10.2.3), in seconds or
        as a date, a day at most; None if it does not, or nobody can read it."""
        value = self.headers.get("retry-after", "").strip()
        if self.status not in _ASKS_TO_WAIT or not value:
            return None
        seconds = float(value) if value.isascii() and value.isdecimal() else _until(value, now=now)
        return None if seconds is None else min(max(seconds, 0.0), LONGEST_RETRY_AFTER_S)
