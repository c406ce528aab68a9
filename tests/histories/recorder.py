"""What workers, and who submits or cancels, ask of a process and are answered, written down to be judged later
(docs/chaos.md).

A line when a call begins and one when it ends, each a member of the gzip file for itself, written at once: processes
share the file, and one that is killed leaves whole lines. They name jobs and claims, and nothing that a job holds.
"""

import functools
import gzip
import itertools
import json
import os
import time
from collections.abc import Callable
from typing import Any, Final

from core.refusal import Refusal
from jobs import operations

_CALLS: Final = (
    "cancel", "checkpoint", "claim", "finish", "finish_and_claim", "heartbeat", "heartbeats", "put_file", "release",
    "store", "store_recent", "submit_child", "withdraw", "write_output", "write_outputs",
)  # fmt: skip
_numbers = itertools.count(1)


def record(file: int) -> None:
    """Write each of these calls into this open file from now on."""
    for name in _CALLS:
        setattr(operations, name, _recorded(getattr(operations, name), name, file))


def _recorded(do: Callable[..., Any], name: str, file: int) -> Callable[..., Any]:
    @functools.wraps(do)
    def recorded(*args: Any, **options: Any) -> Any:
        def write(moment: str, **facts: Any) -> None:
            line = {"process": str(os.getpid()), "id": number, moment: time.clock_gettime(time.CLOCK_REALTIME), **facts}
            os.write(file, gzip.compress(f"{json.dumps(line, default=_plain)}\n".encode(), 1))

        number, known = next(_numbers), args[: 0 if name.startswith("store") else 3]
        write("began", operation=name, args=known, claims=options.get("limit", 0))
        try:
            answer = do(*args, **options)
        except Refusal as refused:
            write("ended", answer=refused)
            raise
        write("ended", answer=_new(answer) if name.startswith("store") else answer)
        return answer

    return recorded


def _new(stored: Any) -> list[int]:
    """The jobs that were not there before."""
    each = stored if isinstance(stored, list) else [stored]
    return [one.id for one in each if isinstance(one, operations.Stored) and not one.is_replaced]


def _plain(value: Any) -> Any:
    """A claim as its job and number, a refusal as its code; of others the number, or the word that matters."""
    if isinstance(value, Refusal):
        return {"error": value.code}
    if isinstance(value, operations.Lease):
        return value.fence
    if hasattr(value, "lease"):
        return [value.id if hasattr(value, "id") else value.job_id, value.lease.fence]
    return getattr(value, "verdict", getattr(value, "pk", None))
