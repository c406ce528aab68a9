"""What this worker reports about itself: its program, its machine, and the GPUs that `nvidia-smi` names."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

from jobfarm_worker.options import VERSION

SMI_S = 3.0  # a driver that hangs must not keep the worker from its work
_MIB = 1024 * 1024
_MOST_GPUS = 64  # what a farm takes
_MOST_HANDLERS = 200
_MOST_MODELS = 500
_MOST_STUCK = 100
_LONGEST_MODEL = 200
_SMI = ("--query-gpu=name,memory.total", "--format=csv,noheader,nounits")


def gathered(*, handlers: Sequence[str], concurrency: int, labels: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The fields of the hello call; what cannot be found out is left out. Takes SMI_S seconds at most."""
    machine = {"cpus": os.cpu_count(), "memory_bytes": _memory_bytes()}
    return {
        "version": f"jobfarm-worker/{VERSION}",
        "host": socket.gethostname()[:255],
        "platform": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"[:200],
        "handlers": list(handlers)[:_MOST_HANDLERS],
        "concurrency": concurrency,
        **{name: value for name, value in machine.items() if value},
        "gpus": gpus(),
        **({"labels": dict(labels)} if labels else {}),  # an older farm knows none, and refuses the field
    }


def announced(models: Sequence[str]) -> list[str]:
    return [name for name in models if 0 < len(name) <= _LONGEST_MODEL][:_MOST_MODELS]


def stuck(jobs: Sequence[int]) -> dict[str, list[int]]:
    """The jobs that were taken away and still have their slots, if there are any: an older farm refuses the field."""
    return {"stuck": list(jobs)[:_MOST_STUCK]} if jobs else {}


def gpus() -> list[dict[str, Any]]:
    """The graphics processors that `nvidia-smi` names; none without it, or when it does not answer in time."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    try:
        answer = subprocess.run([program, *_SMI], capture_output=True, text=True, timeout=SMI_S, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return []
    return [_gpu(line) for line in answer.stdout.splitlines() if line.strip()][:_MOST_GPUS]


def _gpu(line: str) -> dict[str, Any]:
    """A line such as "NVIDIA GeForce RTX 4090, 24564": the memory is in MiB."""
    name, _, mebibytes = line.rpartition(",")
    if not name:
        return {"name": line.strip()[:100]}
    is_number = mebibytes.strip().isdecimal()
    memory = {"memory_bytes": int(mebibytes) * _MIB} if is_number else {}
    return {"name": name.strip()[:100], **memory}


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return None
