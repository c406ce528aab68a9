"""What these pages share: who may act, and the colours of statuses."""

from typing import Any, Final

from django.http import HttpRequest

from scheduling import views

COLOURS: Final = {
    "pending": "info",
    "in_progress": "warning",
    "success": "success",
    "failed": "danger",
    "canceled": "",
    "unknown": "danger",
    "paused": "warning",
    "retired": "",
    "active": "success",
    "living": "success",
    "stopped": "",
    "died": "danger",
    "frozen": "danger",
    "lost": "danger",
}
FUNCTION: Final = "scheduling_scheduledfunction"


class Operated:
    """Whose actions are for who runs the farm."""

    def has_operate_permission(self, request: HttpRequest, object_id: Any = None) -> bool:  # noqa: ARG002  # the admin's
        """Who may cancel, run again, pause."""
        return bool(request.user.has_perm(views.OPERATE))
