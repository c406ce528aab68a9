"""TEMPORARY: the integrator's main has this model of its own (0007_leases)."""

from django.db import models


class Hearing(models.Model):
    """Since when, without a gap, the farm could hear its workers, and when that was last noted. One row."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    since = models.DateTimeField()
    until = models.DateTimeField()
