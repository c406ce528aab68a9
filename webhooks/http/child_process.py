"""Opening a large body in a process of its own.

Python parses 20 MB of JSON in one to three seconds, in which nothing else of its process gets far: all other adapters,
and the pages, would wait. So a process is started for it, which takes what it needs from its standard input, answers on
its standard output, and gives its memory back by ending. It costs some 0.1 s, which such a body does not notice.
"""

import asyncio
import os
import pickle
import resource
import sys
from typing import Final

from webhooks.domain.deliveries import Source
from webhooks.errors import Busy
from webhooks.sources.configs import Opened, opened
from webhooks.sources.requests import Request, Verified

LARGE_BYTES: Final = 1 << 20
MOST_MEMORY: Final = 2 << 30  # 25 MB of empty lists become some 600 MB of Python's objects
_MAIN: Final = "from webhooks.http.child_process import main; main()"


async def open_in_child(source: Source, request: Request, *, verified: Verified) -> Opened:
    """As `sources.configs.opened`, in another process. Raises Busy if that ended without an answer."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _MAIN, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )  # fmt: skip
    try:
        answer, _ = await child.communicate(pickle.dumps((source, request, verified)))
    finally:
        if child.returncode is None:  # nobody waits for it any more
            child.kill()
            await child.wait()
    if child.returncode or not answer:
        raise Busy
    opened: Opened = pickle.loads(answer)  # noqa: S301 (of our own process)
    return opened


def main() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    source, request, verified = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 (of the process that started us)
    sys.stdout.buffer.write(pickle.dumps(opened(source, request, verified=verified)))
