"""Where workers look, who they are, and what jobs require of them."""

from datetime import datetime, timedelta
from functools import partial
from typing import Self

from django.conf import settings
from django.contrib.auth.models import Group
from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.domain import labels
from jobs.models.kinds import valid_name
from postgres import schema

loose = partial(schema.loose, null=True, blank=True)


class Fair(models.TextChoices):
    """By what the shares of a queue differ (docs/adr/0121)."""

    OFF = "off", "off: in the order of submission"
    OWNER = "owner", "by owner"
    GROUP = "group", "by group; of jobs without one by owner"
    KEY = "key", "by concurrency key; of jobs without one by owner"


class Weight(models.Model):
    """How large a person's or a group's share of a fair queue is, beside one of 1."""

    owner = models.OneToOneField(settings.AUTH_USER_MODEL, models.CASCADE, null=True, blank=True, related_name="+")
    group = models.OneToOneField(Group, models.CASCADE, null=True, blank=True, related_name="+")
    weight = models.PositiveSmallIntegerField(
        validators=[MinValueValidator(1), MaxValueValidator(1000)],
        help_text="1 to 1,000: twice the weight may run twice as many jobs at a time where all have enough of them.",
    )

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="a_weight_is_a_persons_or_a_groups",
                condition=Q(owner__isnull=True, group__isnull=False) | Q(owner__isnull=False, group__isnull=True),
                violation_error_message="A weight is of a person or of a group: one of the two.",
            ),
            models.CheckConstraint(
                name="a_weight_is_from_1_to_1000",
                condition=Q(weight__range=(1, 1000)),
                violation_error_message="A weight is from 1 to 1,000.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.owner or self.group}: {self.weight}"


class Queue(models.Model):
    """Where workers look. It exists once a kind or a worker names it."""

    name = models.CharField(max_length=100, primary_key=True, validators=[valid_name])
    paused_at = models.DateTimeField(null=True, blank=True, help_text="While paused, nothing of it is claimed.")
    paused_by = loose(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, related_name="+", editable=False)
    ceiling = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="How many of its jobs may run at the same time; empty means any number."
    )
    of_key = models.PositiveSmallIntegerField(
        null=True, blank=True,
        help_text="How many of its jobs of one concurrency key may run at the same time; empty means any number.",
    )  # fmt: skip
    fair = models.CharField(
        max_length=5, choices=Fair, default=Fair.OFF, db_default=Fair.OFF,
        help_text="Whose shares of it are kept equal: the next job is of who was served the least, by weight.",
    )  # fmt: skip
    ages_after = models.PositiveIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1)],
        help_text="Seconds after which a job that is due counts one priority higher, again and again, as far as others "
        "do; empty: never.",
    )  # fmt: skip
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


class WorkerQuerySet(models.QuerySet["Worker"]):
    """Workers by whether they are there."""

    def live(self) -> Self:
        """Those whose key opens something and that were seen lately; drained ones among them."""
        return self.filter(was_seen_lately(), revoked_at=None)


def was_seen_lately() -> models.Q:
    return models.Q(last_seen_at__gt=Now() - timedelta(seconds=settings.JOBFARM["WORKER_ALIVE_S"]))


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

    objects = WorkerQuerySet.as_manager()

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
