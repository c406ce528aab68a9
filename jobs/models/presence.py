"""Who is there: the processes of the farm beside its clusters, which report to the scheduler; and what workers report
about themselves."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.models.workers import Worker


class Process(models.Model):
    """One process of the farm, from its start on. It reports every few seconds, says when it ends, and is forgotten a
    day after it was heard of last."""

    id = models.UUIDField(primary_key=True)
    part = models.CharField(max_length=7)
    host = models.CharField(max_length=200)
    pid = models.IntegerField()
    started_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True, help_text="When it reported that it ends.")
    errors = ArrayField(models.TextField(), default=list, db_default=[], help_text="What it logged as errors lately.")

    def __str__(self) -> str:
        return f"{self.part} on {self.host} ({self.pid})"


class Reachability(models.Model):
    """Since when, without a gap, the farm is reachable for its workers, and when that was last noted: one row.

    Written by the web processes, read by the janitors: a lease is not held against time in which nobody was reachable.
    """

    id = models.SmallIntegerField(primary_key=True, default=1)
    since = models.DateTimeField()
    until = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(name="there_is_one_reachability", condition=Q(id=1))]


class WorkerFacts(models.Model):
    """What a worker reported about itself (`POST /worker/hello`): nothing of it is checked, and only its labels decide
    anything (`jobs.domain.labels`).

    Apart from the worker's row, which every call reads and which is rewritten every few seconds.
    """

    worker = models.OneToOneField(Worker, models.CASCADE, primary_key=True, related_name="facts")
    version = models.CharField(max_length=100)
    host = models.CharField(max_length=255)
    platform = models.CharField(max_length=200)
    handlers = ArrayField(models.CharField(max_length=100), help_text="The kinds that it has a handler for.")
    concurrency = models.IntegerField(null=True, help_text="How many jobs it runs at a time.")
    cpus = models.IntegerField(null=True)
    memory_bytes = models.BigIntegerField(null=True)
    gpus = models.JSONField(default=list, help_text="Of each its name and, if known, its memory in bytes.")
    reported_at = models.DateTimeField(db_default=Now(), help_text="When it last reported something new.")
    labels = models.JSONField(default=dict, db_default={}, help_text="The labels that it announces.")
    loaded = ArrayField(
        models.CharField(max_length=200),
        default=list, db_default=[], help_text="Those of its models that are in memory.",
    )  # fmt: skip
    cache_used = models.FloatField(null=True, help_text="Which share of its server's cache of prompts is in use.")
    stuck = ArrayField(
        models.BigIntegerField(),
        default=list, db_default=[], help_text="Jobs that were taken from it and whose handlers run on in their slots.",
    )  # fmt: skip
    leaving = models.BooleanField(default=False, db_default=False, help_text="It ended, as it said itself.")
    models = ArrayField(
        models.CharField(max_length=200), db_default=[], help_text="The models that it serves: names of OpenAI's API."
    )

    def __str__(self) -> str:
        return f"{self.host} ({self.version})"
