"""`{% load chat %}`: how an answer stands, as the farm's badge and in words."""

from django import template

from examples.chat.domain.answers import State

register = template.Library()

# The farm's badges are named by the states of jobs; the words are for those who wait for an answer.
_BADGES = {
    State.WAITING: ("pending", "waiting"),
    State.WRITING: ("in_progress", "being written"),
    State.RETRYING: ("pending", "failed, being tried again"),
    State.FINISHED: ("success", "answered"),
    State.FAILED: ("failed", "failed"),
    State.TIMED_OUT: ("timed_out", "timed out"),
    State.CANCELED: ("canceled", "canceled"),
}


@register.filter
def as_status(state: str) -> str:
    """The job's state that has the badge for this one."""
    return _BADGES[State(state)][0]


@register.filter
def in_words(state: str) -> str:
    """How the answer stands, in words."""
    return _BADGES[State(state)][1]
