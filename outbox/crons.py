"""What is kept. A callback is for as long as an event of its job may be; jobs.crons deletes those of ended ones."""

from typing import Any

from django.conf import settings
from django.db.models import Exists, OuterRef, Q

from outbox.domain.messages import CALLBACK, CALLBACK_EVENTS, GONE, EndpointStatus, Status
from outbox.models import Callback, Endpoint, EndpointSecret, Event, Message
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
# An address of a submit to which no job reports any more, and of which no message is kept. What a person has set up
# stays: it is not as it was made, or its secret was rotated, so that somebody knows it.
UNUSED = Endpoint.objects.filter(
    ~Q(pk__in=Callback.objects.values("endpoint").distinct()),  # read once: no index leads from an endpoint to them
    ~Exists(Message.objects.filter(endpoint=OuterRef("pk"))),
    ~Exists(EndpointSecret.objects.filter(endpoint=OuterRef("pk"), retired_at__isnull=False)),
    Q(status=EndpointStatus.ACTIVE) | Q(note=GONE), name__startswith=f"{CALLBACK} ", is_callback=True,
    events=[*CALLBACK_EVENTS], kinds=[], with_result=False, per_minute=None,
)  # fmt: skip
# Locked first: no submit begins to use one meanwhile, and what one uses is passed over (sql/find_callback.sql).
keep("addresses of submits", UNUSED.select_for_update(skip_locked=True), by="created_at", days=_days)
