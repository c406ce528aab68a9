"""Where the workers' socket is."""

from typing import Final

from jobs.consumers import WorkerSocket

WORKER_SOCKET: Final = "/ws/worker/"

__all__ = ["WORKER_SOCKET", "WorkerSocket"]
