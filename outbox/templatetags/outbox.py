"""`{% load outbox %}`: badges of endpoints, messages and attempts."""

from django import template

from live.templatetags.words import badges
from outbox.domain.messages import FAILING, RETRIED, EndpointStatus, Status

register = template.Library()
badges(register, "endpoint_badge", {
    EndpointStatus.ACTIVE: ("on", "active"),
    FAILING: ("failed", "failing"),
    EndpointStatus.PAUSED: ("paused", "paused"),
    EndpointStatus.DISABLED: ("off", "disabled"),
})  # fmt: skip
badges(register, "message_badge", {
    Status.PENDING: ("pending", "pending"),
    RETRIED: ("timed_out", "failed, will be retried"),
    Status.DELIVERED: ("success", "delivered"),
    Status.DEAD: ("failed", "dead"),
})  # fmt: skip
