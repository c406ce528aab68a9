"""What can go wrong when a farm is called. The docstring of each class is its sentence for people."""

from collections.abc import Mapping
from typing import Any

LOST = {
    "canceled": "it was canceled",
    "ended": "it had ended",
    "timed_out": "it ran longer than its timeout",
    "lease_lost": "its lease was lost",
    "taken_over": "another worker has it",
    "taken_back": "its lease ran out, and it waits again",
}
"""The reasons that a farm gives for a lease that is lost, for people."""
_IN_USE = "idempotency_key_in_use"


class FarmError(Exception):
    """Something went wrong between here and the farm."""

    code = "farm_error"

    def __init_subclass__(cls, *, code: str | None = None) -> None:
        super().__init_subclass__()
        if code is not None:
            cls.code = code

    def __init__(self, message: str = "") -> None:
        super().__init__(message or " ".join((type(self).__doc__ or "").split()))


class BadOption(FarmError, code="bad_option"):
    """An option makes no sense."""


class Unauthorized(FarmError, code="unauthorized"):
    """The farm does not accept this key: it is wrong or was revoked."""


class WrongServer(FarmError, code="wrong_server"):
    """Something answers at this address, but it is not a job farm."""


class Unreachable(FarmError, code="unreachable"):
    """No usable answer came from the farm."""

    def __init__(self, message: str = "", *, maybe_done: bool = True) -> None:
        """`maybe_done`: the call may have reached the farm and taken effect; only the answer is missing."""
        super().__init__(message)
        self.maybe_done = maybe_done


class WaitTimeout(FarmError, code="wait_timeout"):
    """The job has not ended in time. It goes on; wait again, or cancel it."""


class Refused(FarmError, code="refused"):
    """The farm refused a call. One class for each code that callers tell apart; this one for all others."""

    def __init__(self, *, status: int, code: str, message: str, details: Mapping[str, Any]) -> None:
        """`code` is the machine's word (`not_unique`), `details` the whole error object, numbers included."""
        super().__init__(message or f"The farm refused the call ({code}).")
        self.status = status
        self.code = code
        self.details = details

    @property
    def is_lease_lost(self) -> bool:
        """The job is not ours any more."""
        return self.code == "lease_lost"

    @property
    def why_lost(self) -> str:
        """Why the job is not ours any more, in a few words; the farm's own sentence where it names no reason."""
        reason, how = str(self.details.get("reason")), self.details.get("job_status")
        if reason == "ended" and isinstance(how, str):  # over the socket `status` is the number of the error
            return f"it had ended: {how.replace('_', ' ')}"
        return LOST.get(reason, str(self))

    @property
    def is_for_now(self) -> bool:
        """The same call may go well later: too many requests, one under the same key at work, trouble in the farm."""
        return self.status in {408, 429} or self.status >= 500 or self.code == _IN_USE

    @property
    def retry_after_s(self) -> float:
        """How long the farm has us wait, in seconds; 0 without a Retry-After."""
        try:
            return max(0.0, float(self.details.get("retry_after", 0)))
        except (TypeError, ValueError, OverflowError):
            return 0.0

    @property
    def job(self) -> int | None:
        """The id of the job that the refusal is about, where it names one: the twin of `not_unique`."""
        job = self.details.get("job")
        return job if isinstance(job, int) else None


class Forbidden(Refused, code="forbidden"):
    """This key may not do that; `details` has the right that it takes."""


class InsufficientScope(Forbidden, code="insufficient_scope"):
    """The token's scopes do not cover the call; `details` has the scope that it takes."""


class NotFound(Refused, code="not_found"):
    """There is no such job, or it is not yours to see."""


class NotUnique(Refused, code="not_unique"):
    """A job of yours of the same kind and `unique_key` has not ended; `job` is its id.

    `reason` in `details` says why it could not be replaced: `in_progress`, `waits_for_retry` or `of_another_token`.
    """


class NotEnded(Refused, code="not_ended"):
    """Only a job that has ended is tried again."""


class NotWaiting(Refused, code="not_waiting"):
    """The job does not wait any more."""


class JobDeleted(Refused, code="job_deleted"):
    """The job of the first request with this key was deleted since; `job` is its id."""


class TooLarge(Refused, code="too_large"):
    """A payload or a body is larger than the farm takes."""


class Invalid(Refused, code="invalid"):
    """The call has values that make no sense; `details["faults"]` names each."""


class UnknownKind(Refused, code="unknown_kind"):
    """The farm has no such kind of job."""


class IdempotencyKeyReused(Refused, code="idempotency_key_reused"):
    """The key belongs to another request of the last 24 hours."""


class RateLimited(Refused, code="rate_limited"):
    """Too many calls; `retry_after_s` says when the next may be made."""


class QuotaReached(Refused, code="quota_reached"):
    """As many jobs wait as may; `details` has the quota and what is used of it."""


class Unavailable(Refused, code="unavailable"):
    """The farm's database is away, or busy; nothing was changed."""


class JobFailed(FarmError, code="job_failed"):
    """The job did not succeed; `job` is how it ended."""

    def __init__(self, job: Any) -> None:
        error = f": {job.error}" if job.error else "."
        super().__init__(f"Job {job.id} ended as {job.status}{error}")
        self.job = job


BY_CODE: Mapping[str, type[Refused]] = {
    kind.code: kind for kind in tuple(globals().values()) if isinstance(kind, type) and issubclass(kind, Refused)
}
"""The class of a refusal by the farm's code, of those above alone: an application's own are for it to raise. `Refused`
is that of all other codes."""


def refusal(*, status: int, data: Mapping[str, Any]) -> Refused:
    """The error object of an answer as an exception of its code's class."""
    code, message = str(data.get("error", "refused")), str(data.get("message", ""))
    kind = BY_CODE.get(code, Refused)
    return kind(status=status, code=code, message=message, details=data)
