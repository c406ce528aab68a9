"""The states of an answer. They follow those of its job, in words for the people who wait for it."""

from enum import StrEnum

KIND = "chat"  # of the jobs that write answers, and the queue where they wait


class State(StrEnum):
    """Where an answer stands."""

    WAITING = "waiting"
    WRITING = "writing"
    RETRYING = "retrying"
    FINISHED = "finished"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELED = "canceled"


LABELS = {
    State.WAITING: "pending",
    State.WRITING: "being written",
    State.RETRYING: "being retried",
    State.FINISHED: "answered",
    State.FAILED: "failed",
    State.TIMED_OUT: "timed out",
    State.CANCELED: "canceled",
}  # for people, on the pages and in the administration
OPEN = frozenset({State.WAITING, State.WRITING, State.RETRYING})  # a person has one of these in a group
ASKABLE = frozenset(State) - OPEN  # may be tried again

_BY_STATUS = {
    "in_progress": State.WRITING,
    "success": State.FINISHED,
    "failed": State.FAILED,
    "timed_out": State.TIMED_OUT,
    "canceled": State.CANCELED,
}


def state(status: str, *, outcome: str | None) -> State:
    """Where an answer stands whose job has this status; `outcome` is how the job's last attempt ended, if it did.

    A job that waits has failed before, or was never tried, or was only given back or never confirmed. Raises KeyError
    for no status.
    """
    if status == "pending":
        return State.WAITING if outcome in {None, "released", "unconfirmed"} else State.RETRYING
    return _BY_STATUS[status]


def agrees(answer: str, *, status: str) -> bool:
    """Whether an answer in this state belongs to a job with this status."""
    if status == "pending":
        return answer in {State.WAITING, State.RETRYING}
    return answer == _BY_STATUS[status]
