"""What is done regularly. Each is in the admin with its next firings, its history, pause and run now."""

from django.conf import settings

from scheduling.operations import Missed, daily, declare, interval, keep, prune
from webhooks.models import Activity, Refusal, SandboxTelemetry
from webhooks.operations.activity import invalidate_digests
from webhooks.operations.catalog import refresh_model_catalog
from webhooks.operations.deliveries import DRAIN
from webhooks.operations.maintenance import drain_sandbox_queue, forget_deliveries, forget_of_sandboxes, reconcile

declare("digest cache invalidation", daily(hour=0, minute=5), invalidate_digests, missed=Missed.ONCE)
declare("model catalog refresh", daily(hour=0), refresh_model_catalog, missed=Missed.ONCE)
declare("reconciliation", interval(minutes=5), reconcile)
declare(DRAIN, interval(minutes=15), drain_sandbox_queue)
prune("deliveries", forget_deliveries, size=500)
prune("deliveries of sandboxes", forget_of_sandboxes, size=500)
keep("counters of refusals", Refusal.objects.all(), by="hour", days=lambda: settings.WEBHOOKS["RETENTION_DAYS"])
keep("activity", Activity.objects.all(), by="at", days=lambda: settings.WEBHOOKS["RETENTION_DAYS"])
keep("telemetry", SandboxTelemetry.objects.all(), by="at", days=lambda: settings.WEBHOOKS["SANDBOX_RETENTION_DAYS"])
