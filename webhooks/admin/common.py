"""What the administration's pages of webhooks share: who may replay and change secrets."""

from typing import Any, Final

from django.http import HttpRequest

from core import administration

OPERATE: Final = "webhooks.operate_delivery"


class _Operated:
    def has_operate_permission(self, request: HttpRequest, object_id: Any = None) -> bool:  # noqa: ARG002  # the admin's
        return request.user.has_perm(OPERATE)


class ReadOnly(_Operated, administration.ReadOnly):
    """A small table to look at."""


class BoundedList(_Operated, administration.BoundedList):
    """A table to look at that may hold millions of rows."""
