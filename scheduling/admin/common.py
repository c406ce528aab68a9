"""What these pages share: who may act, and the colours of statuses."""

from collections.abc import Callable
from typing import Any, Final

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.safestring import SafeString

from core import administration
from scheduling import views

COLOURS: Final = {
    "pending": "info",
    **dict.fromkeys(("success", "active", "living"), "success"),
    **dict.fromkeys(("in_progress", "paused"), "warning"),
    **dict.fromkeys(("failed", "unknown", "died", "frozen", "lost"), "danger"),
    **dict.fromkeys(("canceled", "retired", "stopped"), ""),
}


def function(pk: int | None) -> SafeString | str:
    """A link to the page of a scheduled function."""
    return administration.link("scheduling_scheduledfunction", pk, f"#{pk}")


class Operated:
    """Whose actions are for who runs the farm."""

    def has_operate_permission(self, request: HttpRequest, object_id: Any = None) -> bool:  # noqa: ARG002  # the admin's
        return bool(request.user.has_perm(views.OPERATE))

    def act_on_one(self: Any, request: HttpRequest, object_id: str, act: Callable[[Any], Any]) -> HttpResponse:
        """Act on the row of this page, and come back to it; or show what `act` asks before."""
        row = self.get_object(request, object_id)
        if row is None:
            return self._get_obj_does_not_exist_redirect(request, self.opts, object_id)  # type: ignore[no-any-return]
        page = f"admin:{self.opts.app_label}_{self.opts.model_name}_change"
        return act(row) or HttpResponseRedirect(reverse(page, args=[row.pk]))
