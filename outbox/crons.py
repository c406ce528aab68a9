"""What is kept. A callback is for as long as an event of its job may be, and until its job has ended."""

from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef

from outbox.domain.messages import Status
from outbox.models import Callback, Endpoint, Event, Message
from outbox.queries import unused_callbacks
from scheduling.operations import keep

LONGEST_JOB_DAYS = 365  # from its submission on a job may wait; its callback does as long
# One that still waits, at an endpoint that is paused, keeps its event.
_SENT = ~Exists(Message.objects.filter(event=OuterRef("pk")))


def _days() -> Any:
    return settings.OUTBOX["RETENTION_DAYS"]


keep("messages", Message.objects.select_for_update(skip_locked=True), by="ended_at", days=_days)
# The endpoint was deleted at the moment at which these were written.
_LOST = ~Exists(Endpoint.objects.filter(pk=OuterRef("endpoint_id")))
keep("messages to nobody", Message.objects.filter(_LOST, status=Status.PENDING), by="created_at", days=_days)
keep("events", Event.objects.filter(_SENT), by="created_at", days=_days)
keep("callbacks", Callback.objects.all(), by="created_at", days=lambda: _days() + LONGEST_JOB_DAYS)
# Locked first: no submit begins to use one meanwhile, and what one uses is passed over (sql/find_callback.sql).
_UNUSED = unused_callbacks().select_for_update(skip_locked=True)
keep("addresses of submits", _UNUSED, by="created_at", days=_days)
