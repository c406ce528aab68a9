"""`{% load chat %}`: the badges of answers and workers."""

from typing import Any, Final

from django import template

from examples.chat.domain.answers import LABELS, State
from examples.chat.models import Answer

register = template.Library()

# The status of a job whose colour and icon the badge of an answer has (templates/parts/status.html).
BADGES: Final = {
    State.WAITING: "pending",
    State.WRITING: "in_progress",
    State.RETRYING: "pending",
    State.FINISHED: "success",
    State.FAILED: "failed",
    State.TIMED_OUT: "timed_out",
    State.CANCELED: "canceled",
}


@register.inclusion_tag("parts/status.html")
def answer_badge(answer: Answer) -> dict[str, str]:
    """The state of an answer."""
    state = State(answer.state)
    return {"status": BADGES[state], "label": LABELS[state]}


@register.inclusion_tag("parts/status.html")
def worker_badge(worker: Any) -> dict[str, str]:
    """Whether a worker of a room is writing an answer."""
    if worker.is_busy:
        return {"status": "in_progress", "label": "busy"}
    return {"status": "on", "label": "idle"}
