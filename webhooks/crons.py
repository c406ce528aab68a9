"""What is done regularly. Each is in the admin with its next firings, its history, pause and run now."""

from typing import Any

from django.conf import settings

from scheduling.operations import Missed, daily, declare, interval, keep
from webhooks.domain.deliveries import Source, Status
from webhooks.models import Activity, Delivery, Refusal, SandboxTelemetry
from webhooks.operations.activity import invalidate_digests
from webhooks.operations.deliveries import DRAIN
from webhooks.operations.maintenance import drain_sandbox_queue, reconcile, refresh_model_catalog

# More than any sender resends for: a delivery that was forgotten would count as new. Bodies of sandboxes carry code,
# prompts and whatever tools printed.
_OVER = (
    Delivery.objects.filter(status__in=[Status.PROCESSED, Status.IGNORED, Status.REJECTED])
    .select_for_update(skip_locked=True)  # one may be replayed meanwhile
    .only("pk")
)
_SANDBOX = (Source.SANDBOX_HOOKS, Source.SANDBOX_TELEMETRY)


def _days() -> Any:
    return settings.WEBHOOKS["RETENTION_DAYS"]


def _sandbox_days() -> Any:
    return settings.WEBHOOKS["SANDBOX_RETENTION_DAYS"]


declare("digest cache invalidation", daily(hour=0, minute=5), invalidate_digests, missed=Missed.ONCE)
declare("model catalog refresh", daily(hour=0), refresh_model_catalog, missed=Missed.ONCE)
declare("reconciliation", interval(minutes=5), reconcile)
declare(DRAIN, interval(minutes=15), drain_sandbox_queue)
keep("deliveries", _OVER.exclude(source__in=_SANDBOX), by="received_at", days=_days, size=500)
keep("deliveries of sandboxes", _OVER.filter(source__in=_SANDBOX), by="received_at", days=_sandbox_days, size=500)
keep("counters of refusals", Refusal.objects.all(), by="hour", days=_days)
keep("activity", Activity.objects.all(), by="at", days=_days)
keep("telemetry", SandboxTelemetry.objects.all(), by="at", days=_sandbox_days)
