"""What can go wrong for a worker. The docstring of each class is its sentence for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LOST = {
    "canceled": "it was canceled",
    "ended": "it had ended",
    "taken_over": "another worker has it",
    "taken_back": "its lease ran out, and it waits again",
}
"""The reasons that a farm gives for a lease that is lost, for people."""


class WorkerError(Exception):
    """Something went wrong in the worker."""

    code = "worker_error"

    def __init__(self, message: str = "") -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class Failed(WorkerError):
    """The handler says that the attempt failed."""

    code = "failed"

    def __init__(self, message: str = "", *, retryable: bool = True) -> None:
        """`message` is kept on the attempt; `retryable=False` ends the job, whatever attempts are left."""
        super().__init__(message)
        self.retryable = retryable


class JobStopped(WorkerError):
    """The job is no longer ours: it was canceled, its lease was lost, or the worker shuts down."""

    code = "job_stopped"


class BadOption(WorkerError):
    """An option of the worker makes no sense."""

    code = "bad_option"


class Unauthorized(WorkerError):
    """The farm does not accept this key: it is wrong or was revoked."""

    code = "unauthorized"


class WrongServer(WorkerError):
    """Something answers at this address, but it is not a job farm."""

    code = "wrong_server"


class Unreachable(WorkerError):
    """No usable answer came from the farm."""

    code = "unreachable"

    def __init__(self, message: str = "", *, maybe_done: bool = True) -> None:
        """`maybe_done`: the call may have reached the farm and taken effect; only the answer is missing."""
        super().__init__(message)
        self.maybe_done = maybe_done


class Refused(WorkerError):
    """The farm refused a call."""

    code = "refused"

    def __init__(self, *, status: int, reason: str, message: str, details: Mapping[str, Any]) -> None:
        """`reason` is the machine's word (`lease_lost`), `details` the whole error object of the answer."""
        super().__init__(message or f"The farm refused the call ({reason}).")
        self.status = status
        self.reason = reason
        self.details = details

    @property
    def is_lease_lost(self) -> bool:
        """The job is not ours any more: 409, or the job itself is gone."""
        return self.reason == "lease_lost" or self.status in {404, 410}

    @property
    def why_lost(self) -> str:
        """Why the job is not ours any more, in a few words; the farm's own sentence where it names no reason."""
        reason, how = str(self.details.get("reason")), self.details.get("job_status")
        if reason == "ended" and isinstance(how, str):  # over the socket `status` is the number of the error
            return f"it had ended: {how.replace('_', ' ')}"
        return LOST.get(reason, str(self))

    @property
    def is_for_now(self) -> bool:
        """Asking again later may go well: too many requests, or trouble inside the farm."""
        return self.status in {408, 429} or self.status >= 500

    @property
    def retry_after_s(self) -> float:
        """How long the farm has us wait, in seconds; 0 without a Retry-After."""
        try:
            return max(0.0, float(self.details.get("retry_after", 0)))
        except (TypeError, ValueError):
            return 0.0
