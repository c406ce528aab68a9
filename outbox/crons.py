"""What is kept. A callback is for as long as an event of its job may be."""

from functools import partial

from django.conf import settings

from outbox import queries
from outbox.models import Callback
from scheduling.operations import keep, prune

prune("messages", partial(queries.retain, "retain"))
prune("events", partial(queries.retain, "retain_events"))
keep(
    "callbacks", Callback.objects.all(), by="created_at",
    days=lambda: settings.OUTBOX["RETENTION_DAYS"] + queries.LONGEST_JOB_DAYS,
)  # fmt: skip
