"""Where a connection comes from, as far as the server knows: the key of limits by address."""

import ipaddress
from collections.abc import Mapping
from typing import Any, Final

# Bits: the smallest network that a customer gets; its addresses are theirs to choose.
_IPV6_CUSTOMER: Final = 64


def network_of(scope: Mapping[str, Any]) -> str | None:
    """Return the address of a connection, of IPv6 the network of 64 bits; None where the server names none.

    Behind a proxy the server puts in what the proxy says, if the proxy is trusted (uvicorn's
    --forwarded-allow-ips); headers that anybody can send are not read.
    """
    client = scope.get("client")
    return network(client[0]) if client else None


def network(address: str | None) -> str | None:
    """Return this address, of IPv6 the network of 64 bits, whose addresses one client may change at will; None for what
    is no address."""
    try:
        ip = ipaddress.ip_address(address or "")
    except ValueError:
        return None
    if isinstance(ip, ipaddress.IPv6Address):
        ip = ip.ipv4_mapped or ip
    if isinstance(ip, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(ip), _IPV6_CUSTOMER), strict=False))
    return str(ip)
