"""What a cancel comes to, of a job as of a scheduled function."""

from enum import StrEnum


class CancelVerdict(StrEnum):
    """What a cancel came to."""

    BEFORE_START = "canceled_before_start"
    BEFORE_RETRY = "canceled_before_retry"
    WHILE_SUSPENDED = "canceled_while_suspended"
    WHILE_RUNNING = "canceled_while_running"
    TOO_LATE = "too_late"
