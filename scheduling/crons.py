from django.conf import settings

from scheduling.models import Cluster, ScheduledFunction
from scheduling.operations import declare, interval, keep, retain

declare("retention", interval(minutes=15), retain)
keep("functions", ScheduledFunction.objects.all(), by="ended_at", days=lambda: settings.SCHEDULING["RETENTION_DAYS"])
keep("clusters", Cluster.objects.all(), by="ended_at", days=lambda: settings.SCHEDULING["RETENTION_DAYS"])
