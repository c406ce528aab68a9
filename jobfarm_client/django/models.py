"""The outbox: what was enqueued, and which job of the farm it became."""

import uuid
from typing import ClassVar

from django.db import models


class FarmTask(models.Model):
    """One enqueued task. It waits while it has a `due_at`; then it has a `job`, or the farm's refusal in `error`."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    backend = models.CharField(max_length=200)
    task = models.CharField(max_length=500)  # the path of the function
    job = models.BigIntegerField(null=True)
    body = models.JSONField()  # of the submit
    tries = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True)
    created_at = models.DateTimeField()
    first_tried_at = models.DateTimeField(null=True)
    due_at = models.DateTimeField(null=True)

    objects: ClassVar[models.Manager["FarmTask"]] = models.Manager()

    class Meta:
        verbose_name = "task at a farm"
        verbose_name_plural = "tasks at a farm"
        indexes = [models.Index("due_at", name="jobfarm_client_waiting", condition=models.Q(due_at__isnull=False))]

    def __str__(self) -> str:
        return f"{self.task} {self.id}"
