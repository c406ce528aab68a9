"""The client of a job farm, for Python: submit jobs, wait for them, read what they write. No Django.

from jobfarm_client import Client
"""

from jobfarm_client.client import AsyncClient, Client
from jobfarm_client.errors import (
    BadOption,
    FarmError,
    Forbidden,
    IdempotencyKeyReused,
    InsufficientScope,
    Invalid,
    JobDeleted,
    JobFailed,
    NotEnded,
    NotFound,
    NotUnique,
    NotWaiting,
    QuotaReached,
    RateLimited,
    Refused,
    TooLarge,
    Unauthorized,
    Unavailable,
    UnknownKind,
    Unreachable,
    WaitTimeout,
    WrongServer,
)
from jobfarm_client.models import (
    Attempt,
    BulkAction,
    Canceled,
    Event,
    File,
    Flow,
    FlowStep,
    Job,
    NewJob,
    Reason,
    Skipped,
    Upload,
)

__all__ = [
    "AsyncClient", "Attempt", "BadOption", "BulkAction", "Canceled", "Client", "Event", "FarmError", "File", "Flow",
    "FlowStep", "Forbidden", "IdempotencyKeyReused", "InsufficientScope", "Invalid", "Job", "JobDeleted",
    "JobFailed", "NewJob", "NotEnded", "NotFound", "NotUnique", "NotWaiting", "QuotaReached", "RateLimited",
    "Reason", "Refused", "Skipped", "TooLarge", "Unauthorized", "Unavailable", "UnknownKind", "Unreachable",
    "Upload", "WaitTimeout", "WrongServer",
]  # fmt: skip
