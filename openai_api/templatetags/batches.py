"""`{% load batches %}`: the badge of a batch."""

from django import template

from live.templatetags.words import badges
from openai_api.domain.batches import BatchStatus

register = template.Library()
badges(register, "batch_badge", {
    BatchStatus.VALIDATING: ("pending", "validating"),
    BatchStatus.IN_PROGRESS: ("in_progress", "in progress"),
    BatchStatus.FINALIZING: ("in_progress", "finalizing"),
    BatchStatus.CANCELLING: ("canceled", "canceling"),
    BatchStatus.COMPLETED: ("success", "completed"),
    BatchStatus.FAILED: ("failed", "failed"),
    BatchStatus.EXPIRED: ("timed_out", "expired"),
    BatchStatus.CANCELLED: ("canceled", "canceled"),
})  # fmt: skip
