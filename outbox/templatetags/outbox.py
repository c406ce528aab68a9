"""`{% load outbox %}`: badges of endpoints, messages and attempts."""

from collections.abc import Mapping
from typing import Final

from django import template

from outbox.domain.states import FAILING, EndpointStatus, Outcome, Status

register = template.Library()
_BADGE: Final = "parts/status.html"
# Each status, the status of a job whose colour and icon its badge has (`templates/parts/status.html`), and its label.
_ENDPOINTS: Final[Mapping[str, tuple[str, str]]] = {
    EndpointStatus.ACTIVE: ("on", "active"),
    FAILING: ("failed", "failing"),
    EndpointStatus.PAUSED: ("paused", "paused"),
    EndpointStatus.DISABLED: ("off", "disabled"),
}
_MESSAGES: Final = {
    Status.PENDING: ("pending", "waits"),
    Status.DELIVERED: ("success", "delivered"),
    Status.DEAD: ("failed", "dead"),
}


@register.inclusion_tag(_BADGE)
def endpoint_badge(status: str) -> dict[str, str]:
    return _badge(*_ENDPOINTS[status])


@register.inclusion_tag(_BADGE)
def message_badge(status: str, attempts: int = 0) -> dict[str, str]:
    """The status of a message; one that waits for another attempt failed before."""
    if status == Status.PENDING and attempts:
        return _badge("timed_out", "failed, retried")
    return _badge(*_MESSAGES[Status(status)])


@register.filter
def attempt_status(outcome: str) -> str:
    return "success" if outcome == Outcome.DELIVERED else "failed"


def _badge(status: str, label: str) -> dict[str, str]:
    return {"status": status, "label": label}
