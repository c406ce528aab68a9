"""The states of a picture in the making, and the steps that its page shows."""

from enum import StrEnum

KIND = "image"  # any worker that paints for the farm paints for the game
SAVING_FROM = 0.9  # of a worker's progress: what comes then is encoding and sending


class State(StrEnum):
    """How a submission stands. It ends once, as its job ends."""

    PAINTING = "painting"
    SAVED = "saved"
    FAILED = "failed"
    CANCELED = "canceled"


class Step(StrEnum):
    """What happens to a submission that has not ended, in this order. The values are what people read."""

    STARTING = "Starting"
    CHECKING = "Checking the prompt"
    GENERATING = "Generating"
    SAVING = "Saving"


def step(*, is_claimed: bool, progress: float | None) -> Step:
    """Where a painting is: with no worker yet, being checked as one takes it, or as far as the worker says."""
    if not is_claimed:
        return Step.STARTING
    if progress is None:
        return Step.CHECKING
    return Step.SAVING if progress >= SAVING_FROM else Step.GENERATING


def has_passed(which: Step, *, now: Step) -> bool:
    """Whether a step lies behind."""
    order = list(Step)
    return order.index(which) < order.index(now)
