"""Which errors are the same: what differs from job to job is left out, and the rest is compared."""

import hashlib
import re
from typing import Final

LONGEST: Final = 300  # characters of an error that are compared
_VARYING: Final = re.compile(
    r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"  # a UUID
    r"|0x[0-9a-fA-F]+"  # an address
    r"|\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b"  # a hash
    r"|\d+(?:\.\d+)*"  # numbers, versions, times
)


def pattern(error: str) -> str:
    """Return the last line of `error` with `…` for ids, addresses, hashes and numbers; empty for an empty one."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    return re.sub(r"\s+", " ", _VARYING.sub("…", lines[-1]))[:LONGEST] if lines else ""


def key(kind: str, status: str, shape: str) -> str:
    """Return the name of a group in an address."""
    return hashlib.sha256("\0".join((kind, status, shape)).encode()).hexdigest()[:16]
