"""Health scores, by day."""

from django.contrib import admin

from core import administration
from jobs.models import HealthScore


@admin.register(HealthScore)
class HealthScoreAdmin(administration.BoundedList):
    """How queues, workers and sources did, by day."""

    list_display = ["day", "subject", "name", "score", "ended", "latency_p50_s", "latency_p95_s", "backlog"]
    list_filter = ["subject", administration.by_day("day")]
    search_fields = ["name"]
