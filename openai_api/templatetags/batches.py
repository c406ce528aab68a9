"""`{% load batches %}`: the badge of a batch."""

from typing import Final

from django import template

from openai_api.domain.batches import BatchStatus

register = template.Library()
# The status of a job whose colour and icon the badge has (`templates/parts/status.html`).
_LIKE: Final = {
    BatchStatus.VALIDATING: "pending",
    BatchStatus.IN_PROGRESS: "in_progress",
    BatchStatus.FINALIZING: "in_progress",
    BatchStatus.CANCELLING: "canceled",
    BatchStatus.COMPLETED: "success",
    BatchStatus.FAILED: "failed",
    BatchStatus.EXPIRED: "timed_out",
    BatchStatus.CANCELLED: "canceled",
}


@register.inclusion_tag("parts/status.html")
def batch_badge(status: str) -> dict[str, str]:
    return {"status": _LIKE[BatchStatus(status)], "label": status}
