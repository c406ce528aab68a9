"""Which errors are the same: what differs from job to job is left out, and the rest is compared."""

import hashlib
import re
from typing import Final

_BEGINS: Final = "Traceback (most recent call last)"
_FRAME: Final = re.compile(r'  File "([^"]*)", line \d+')
_OF_THE_WORKER: Final = re.compile(
    r"[/\\](?:jobfarm_worker|asyncio|concurrent)[/\\]|[/\\]contextlib\.py$|[/\\]threading\.py$"
)
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


def own_frames(error: str) -> str:
    """A traceback that begins with the handler's own frames: those of the worker, and of Python's library before and
    between them, are left out. What has no others stays as it is."""
    kept: list[str] = []
    is_leading = is_left_out = False
    for line in error.splitlines():
        frame = _FRAME.match(line)
        if line.startswith(_BEGINS):
            is_leading, is_left_out = True, False
        elif frame:
            is_leading = is_left_out = is_leading and bool(_OF_THE_WORKER.search(frame[1]))
        elif not line.startswith("    "):
            is_leading = is_left_out = False
        if not is_left_out:
            kept.append(line)
    return "\n".join(kept) if any(map(_FRAME.match, kept)) else error


def key(kind: str, status: str, shape: str) -> str:
    """Return the name of a group in an address."""
    return hashlib.sha256("\0".join((kind, status, shape)).encode()).hexdigest()[:16]
