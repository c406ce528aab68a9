"""What can go wrong for a worker: what any caller of a farm meets, and what only handlers do."""

from jobfarm_client.errors import (
    LOST,
    BadOption,
    FarmError as WorkerError,
    Refused,
    Unauthorized,
    Unreachable,
    WrongServer,
)


class Failed(WorkerError, code="failed"):
    """The handler says that the attempt failed."""

    def __init__(self, message: str = "", *, retryable: bool = True) -> None:
        """`message` is kept on the attempt; `retryable=False` ends the job, whatever attempts are left."""
        super().__init__(message)
        self.retryable = retryable


class JobStopped(WorkerError, code="job_stopped"):
    """The job is no longer ours: it was canceled, its lease was lost, its handler gave it back, or the worker ends."""


__all__ = [
    "LOST", "BadOption", "Failed", "JobStopped", "Refused", "Unauthorized", "Unreachable", "WorkerError", "WrongServer",
]  # fmt: skip
