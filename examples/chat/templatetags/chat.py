"""`{% load chat %}`: the badges of answers and workers, and the text of an answer."""

from typing import Any, Final

from django import template
from django.utils.safestring import SafeString, mark_safe

from examples.chat.domain import markdown
from examples.chat.domain.answers import LABELS, State
from examples.chat.models import Answer, Message

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


@register.filter
def formatted(message: Message) -> SafeString:
    """The Markdown of a message as HTML."""
    return mark_safe(markdown.to_html(message.text, key=str(message.pk)))  # noqa: S308  # it comes out of a sanitizer
