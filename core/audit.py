"""Who did what: Django's own admin log, so that the admin's history shows it beside its own lines."""

from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.db.models import Model


def record(by: User | None, row: Model, message: str) -> None:
    """Note in the caller's transaction that `by` did `message` to `row`; the system itself (None) leaves no line."""
    if by is not None:
        LogEntry.objects.log_actions(by.pk, [row], CHANGE, change_message=message, single_object=True)
