"""The lives of an endpoint and of a message, which is one event on its way to one endpoint."""

from enum import StrEnum


class EndpointStatus(StrEnum):
    """`paused`: events are kept for it and wait. `disabled`: nothing is kept for it any more."""

    ACTIVE = "active"
    PAUSED = "paused"
    DISABLED = "disabled"


FAILING = "failing"  # how an active endpoint is shown of which no attempt succeeds


RETRIED = "retried"  # how a message is shown that waits for another attempt


class Status(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    DEAD = "dead"


class Outcome(StrEnum):
    DELIVERED = "delivered"  # 2xx
    FAILED = "failed"  # any other answer, or none
    GONE = "gone"  # 410: the endpoint does not exist any more


# A person may have a message sent again once it has ended; one that waits is sent anyway.
REPLAYABLE = frozenset({Status.DELIVERED, Status.DEAD})
