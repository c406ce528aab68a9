"""Where a socket comes from, as far as the server knows."""

import ipaddress
from collections.abc import Mapping
from typing import Any, Final

_IPV6_CUSTOMER: Final = (
    64  # bits: the smallest network that a customer gets; its addresses are theirs to choose
)


def network_of(scope: Mapping[str, Any]) -> str | None:
    """Return the address of a connection, of IPv6 the network of 64 bits; None where the server names none.

    Behind a proxy the server puts in what the proxy says, if the proxy is trusted (uvicorn's
    --forwarded-allow-ips); headers that anybody can send are not looked at.
    """
    client = scope.get("client")
    try:
        ip = ipaddress.ip_address(client[0]) if client else None
    except ValueError:
        return None
    if isinstance(ip, ipaddress.IPv6Address):
        ip = ip.ipv4_mapped or ip
    if isinstance(ip, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((int(ip), _IPV6_CUSTOMER), strict=False))
    return None if ip is None else str(ip)
