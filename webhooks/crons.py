"""What is done regularly. Each is in the admin with its next firings, its history, pause and run now."""

from scheduling.operations import Missed, daily, declare, interval
from webhooks.operations.activity import invalidate_digests
from webhooks.operations.catalog import refresh_model_catalog
from webhooks.operations.deliveries import DRAIN
from webhooks.operations.maintenance import drain_sandbox_queue, reconcile, retain

declare("digest cache invalidation", daily(hour=0, minute=5), invalidate_digests, missed=Missed.ONCE)
declare("model catalog refresh", daily(hour=0), refresh_model_catalog, missed=Missed.ONCE)
declare("reconciliation", interval(minutes=5), reconcile)
declare(DRAIN, interval(minutes=15), drain_sandbox_queue)
declare("webhook retention", daily(hour=3), retain, missed=Missed.ONCE)
