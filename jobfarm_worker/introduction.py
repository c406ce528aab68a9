"""What a worker reports of itself while it runs: its program, its machine and its GPUs, which models it serves, which
of its slots are stuck."""

import asyncio
import logging
import os
import platform
import socket
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from jobfarm_worker.errors import Refused, WrongServer
from jobfarm_worker.farm import Farm
from jobfarm_worker.observing import Scoreboard
from jobfarm_worker.options import VERSION, Options
from jobfarm_worker.protocol import Call, storable
from jobfarm_worker.running import Handlers
from jobfarm_worker.tasks import first

MODELS_EVERY_S = 60.0  # a model that was loaded or removed is known to the farm so soon
NO_MODELS_EVERY_S = 5.0  # a server that is being started is asked sooner
SMI_S = 3.0  # a driver that hangs must not keep the worker from its work
_MIB = 1024 * 1024
_MOST_GPUS = 64  # what a farm takes
_MOST_HANDLERS = 200
_MOST_MODELS = 500
_MOST_STUCK = 100
_LONGEST_MODEL = 200
_SMI = ("nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits")
log = logging.getLogger("jobfarm_worker")


def gathered(handlers: Sequence[str], options: Options) -> dict[str, Any]:
    """The fields of the hello call; what cannot be found out is left out. Takes SMI_S seconds at most."""
    machine = {"cpus": os.cpu_count(), "memory_bytes": _memory_bytes()}
    return {
        "version": f"jobfarm-worker/{VERSION}",
        "host": socket.gethostname()[:255],
        "platform": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"[:200],
        "handlers": [*handlers][:_MOST_HANDLERS],
        "concurrency": options.concurrency,
        **{name: value for name, value in machine.items() if value},
        "gpus": gpus(),
        **({"labels": dict(options.labels)} if options.labels else {}),
    }


def _announced(models: Sequence[str]) -> list[str]:
    return [name for name in map(storable, models) if 0 < len(name) <= _LONGEST_MODEL][:_MOST_MODELS]


def gpus() -> list[dict[str, Any]]:
    """The graphics processors that `nvidia-smi` names; none without it, or when it does not answer in time."""
    try:
        answer = subprocess.run(_SMI, capture_output=True, text=True, timeout=SMI_S, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return []
    return [_gpu(line) for line in answer.stdout.splitlines() if line.strip()][:_MOST_GPUS]


def _gpu(line: str) -> dict[str, Any]:
    """A line such as "NVIDIA GeForce RTX 4090, 24564": the memory is in MiB."""
    name, _, mebibytes = line.rpartition(",")
    memory = {"memory_bytes": int(mebibytes) * _MIB} if name and mebibytes.strip().isdecimal() else {}
    return {"name": (name or line).strip()[:100], **memory}


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None


class Introduction:
    """A farm that knows no such call lacks a line on a page, and nothing else."""

    def __init__(self, farm: Farm, *, options: Options, handlers: Handlers, board: Scoreboard) -> None:
        self._farm = farm
        self._options = options
        self._handlers = handlers
        self._board = board
        self._facts: Mapping[str, Any] = {}  # as they were reported last

    async def run(self) -> None:
        """Report at once, when a slot gets stuck or is stuck no more, and every minute if models are served."""
        fields = await asyncio.to_thread(gathered, sorted(self._handlers), self._options)
        has_changed = asyncio.Event()
        self._board.on_stuck = has_changed.set
        while True:
            has_changed.clear()
            try:
                models, every_s = await self._served()
            except Exception as error:  # of a handler's own code, say of a server that is away
                log.warning("which models are served is not known: %r", error)
                models, every_s = {"models": []}, NO_MODELS_EVERY_S
            stuck = self._board.stuck[:_MOST_STUCK]
            self._facts = {**fields, **models, **({"stuck": stuck} if stuck else {})}
            await self._say(self._facts)
            await first(has_changed.wait(), timeout_s=every_s)

    async def leave(self) -> None:
        """Say that this worker ends: its models are listed until then."""
        if self._facts.get("models"):
            await self._say({**self._facts, "leaving": True})

    async def _served(self) -> tuple[dict[str, Any], float | None]:
        """Which models this worker serves, as facts, and after how many seconds to ask again; None: it serves none."""
        if not self._handlers.serve_models:
            return {}, None
        models = _announced(await self._handlers.models())
        loaded = _announced(await self._handlers.loaded())
        more = {"loaded": loaded or None, "cache_used": await self._handlers.cache_used()}
        named = {"models": models} | {name: value for name, value in more.items() if value is not None}
        return named, MODELS_EVERY_S if models else NO_MODELS_EVERY_S

    async def _say(self, fields: Mapping[str, Any]) -> None:
        try:
            await self._farm.insist(Call(verb="hello", body=fields), heartbeat_s=self._farm.heartbeat_s)
        except (Refused, WrongServer) as error:
            log.debug("the farm does not take what this worker says of itself: %s", error)
