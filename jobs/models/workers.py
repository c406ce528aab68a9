"""Where workers look, who they are, and what jobs require of them."""

from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.domain import labels
from jobs.models.kinds import valid_name


def loose(to: Any, **options: Any) -> Any:
    """A foreign key that the ORM follows and the database does not check."""
    return models.ForeignKey(to, null=True, blank=True, db_constraint=False, db_index=False, **options)


class Queue(models.Model):
    """Where workers look. It exists once a kind or a worker names it."""

    name = models.CharField(max_length=100, primary_key=True, validators=[valid_name])
    paused_at = models.DateTimeField(null=True, blank=True, help_text="While paused, nothing of it is claimed.")
    paused_by = loose(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, related_name="+", editable=False)
    ceiling = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="How many of its jobs may run at the same time; empty means any number."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    # The member whose worker named it first; null for those of code, kinds and operators.
    made_by = loose(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, related_name="+", editable=False)
    # Since a worker of a member's first asked for it.
    by_owner = models.BooleanField(
        default=False, db_default=False, editable=False,
        help_text="Its jobs wait in lanes of their owners and groups.",
    )  # fmt: skip

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Worker(models.Model):
    """An API key with a name, an owner, home queues and a scope; one process on some machine."""

    name = models.CharField(max_length=100)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, blank=True, related_name="workers",
        help_text="Empty: it serves everybody. Otherwise: its owner's jobs, and those of the groups the owner is in.",
    )  # fmt: skip
    queues = ArrayField(models.CharField(max_length=100), help_text="Home queues, in the order they are served.")
    steals = ArrayField(
        models.CharField(max_length=100), default=list, blank=True,
        help_text="Queues it takes from when idle; * means every other queue.",
    )  # fmt: skip
    # Null for the many that never named queues. Otherwise what its claims asked for within WORKER_ALIVE_S, those of the
    # latest first, and since when each is known; * stands for all that its key may take (jobs.operations.claim).
    polled_queues = ArrayField(models.CharField(max_length=100), null=True, editable=False)
    polled_at = ArrayField(models.DateTimeField(), null=True, editable=False)
    read_at: datetime | None = None  # by the database's clock, of a worker that was found by its key
    # Of a worker that was read for an earlier call: as which version of its row (jobs.operations.workers.recognize).
    version: str | None = None
    labels = models.JSONField(
        default=dict, db_default={}, blank=True,
        help_text="Labels that win over what it announces; an empty value takes one away.",
    )  # fmt: skip
    satisfies = ArrayField(
        models.IntegerField(), default=list, db_default=[], editable=False,
        help_text="The requirements of jobs that its labels meet, with all that is preferred.",
    )  # fmt: skip
    key_hash = models.CharField(max_length=64, unique=True, editable=False)
    key_hint = models.CharField(max_length=12, editable=False, help_text="How its key begins.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    connected_at = models.DateTimeField(
        null=True, editable=False, help_text="Since when it is there without a gap of WORKER_ALIVE_S."
    )
    last_seen_at = models.DateTimeField(null=True, blank=True, editable=False)
    drained_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="While drained, it claims nothing."
    )
    drained_by = loose(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, related_name="+", editable=False)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        ordering = ["name", "id"]

    def __str__(self) -> str:
        return self.name

    def become(self, other: "Worker") -> None:
        """Be as this one was read just now."""
        for field in self._meta.concrete_fields:
            setattr(self, field.attname, getattr(other, field.attname))
        self.read_at, self.version = other.read_at, other.version


class Requirement(models.Model):
    """What jobs require of the labels of their worker, and prefer: each distinct set is one row (docs/adr/0085).

    A job that has one waits in a lane of it, which workers that do not satisfy the set pass by. One that no living job
    has is retired.
    """

    id = models.AutoField(primary_key=True)
    text = models.TextField(unique=True, help_text="The set in its one spelling.")
    requires = models.JSONField()
    prefers = models.JSONField()
    base = loose("self", on_delete=models.DO_NOTHING, related_name="+")  # what is required, without the preferences
    created_at = models.DateTimeField(db_default=Now())
    retired_at = models.DateTimeField(null=True, help_text="Since then no living job has it.")

    class Meta:
        indexes = [models.Index(fields=["id"], name="jobs_requirements_in_use", condition=Q(retired_at__isnull=True))]

    def __str__(self) -> str:
        return labels.in_words(self.requires) or f"prefers {labels.in_words(self.prefers)}"
