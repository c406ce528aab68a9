"""Health scores: how queues, workers and what other apps add did on each day."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now


class HealthScore(models.Model):
    """How one queue, worker or webhook source did on one day (UTC)."""

    day = models.DateField()
    subject = models.CharField(max_length=20, help_text="What it is about: a queue, a worker, a source.")
    name = models.CharField(max_length=255)
    ended = models.PositiveBigIntegerField(help_text="Jobs or deliveries that ended on that day.")
    succeeded = models.PositiveBigIntegerField()
    score = models.FloatField(null=True, help_text="The share that succeeded, 0 to 1; empty if nothing ended.")
    latency_p50_s = models.FloatField(null=True, help_text="From due (or received) to the end.")
    latency_p95_s = models.FloatField(null=True)
    backlog = models.PositiveBigIntegerField(help_text="Pending jobs or deliveries when the score was computed.")
    computed_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-day", "subject", "name"]
        constraints = [
            models.UniqueConstraint(fields=["day", "subject", "name"], name="one_health_score_a_day"),
            models.CheckConstraint(
                name="a_health_score_is_a_share_of_what_ended",
                condition=Q(ended=0, score__isnull=True) | Q(ended__gt=0, score__gte=0, score__lte=1),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.subject} {self.name} on {self.day}"
