"""The scheduler's own cron, and what it keeps."""

from django.conf import settings

from scheduling.models import Cluster
from scheduling.operations import declare, interval, keep, prune, retain
from scheduling.queries import functions

declare("retention", interval(minutes=15), retain)
prune("functions", functions.retain)
keep("clusters", Cluster.objects.all(), by="ended_at", days=lambda: settings.SCHEDULING["RETENTION_DAYS"])
