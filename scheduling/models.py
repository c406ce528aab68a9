"""The tables of the scheduler. Constraints state what a row must hold in each state.

No foreign key carries a database constraint: checking one reads an index inside the mutation's serializable
transaction, and that alone makes neighbours collide (docs/adr/0010).
"""

from functools import partial

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Cast, Now

from postgres.schema import loose
from scheduling.domain.calls import ENDED, LIVE, Kind, Status
from scheduling.domain.schedules import Missed, Overlap, Source

_ACTION = Q(kind=Kind.ACTION)
_IN_PROGRESS = Q(status=Status.IN_PROGRESS)
_FAILED = Q(status__in=[Status.FAILED, Status.UNKNOWN])
_loose = partial(loose, null=True, blank=True)
RESTARTS = 4  # of the whole server count as one death: most are nobody's fault, and some are the mutation's


class _Crons(models.Manager["Cron"]):
    def get_queryset(self) -> models.QuerySet["Cron"]:
        """With their arguments as text: `args`, read when it is asked for, may be what cannot be read."""
        return super().get_queryset().defer("args").annotate(stored_args=Cast("args", models.TextField()))


class Cron(models.Model):
    """A named schedule, of an app's `crons.py` or of a person. Every firing of it is a scheduled function."""

    name = models.CharField(max_length=100, primary_key=True)
    function = models.CharField(max_length=200)
    args = models.JSONField("arguments", default=dict)
    schedule = models.CharField(max_length=200)
    missed = models.CharField("missed firings", max_length=8, choices=[(m, m.replace("_", " ")) for m in Missed])
    at_most = models.PositiveSmallIntegerField(default=1, help_text="How many missed firings are made up for at most.")
    overlap = models.CharField(max_length=5, choices=[(o, o) for o in Overlap])
    next_at = models.DateTimeField("next firing", null=True, blank=True, help_text="Empty: it never fires again.")
    last_fire_at = models.DateTimeField("last firing", null=True, blank=True)
    missed_count = models.BigIntegerField(
        "missed", default=0, help_text="Fire times that were skipped because no cluster was running."
    )
    missed_at = models.DateTimeField(
        "last missed", null=True, editable=False,
        help_text="When it was last seen that a fire time had passed while no cluster was running.",
    )  # fmt: skip
    skipped_count = models.BigIntegerField(
        "skipped", default=0, help_text="Firings that were skipped because the one before had not ended."
    )
    paused_at = models.DateTimeField(null=True, blank=True)
    pause_reason = models.TextField(
        "reason", null=True, editable=False,
        help_text="Why the scheduler paused it, because it could not be fired. Empty: a person did.",
    )  # fmt: skip
    retired_at = models.DateTimeField(null=True, blank=True, help_text="Since then no crons.py declares it.")
    source = models.CharField(
        max_length=6, choices=[(s, s) for s in Source], default=Source.CODE, db_default=Source.CODE.value,
        help_text="Whether code says what it is, a person who changed it, or a person who made it.",
    )  # fmt: skip
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    objects = _Crons()

    class Meta:
        ordering = ["name"]
        indexes = [
            models.Index("next_at", name="scheduling_crons_due",
                         condition=Q(paused_at__isnull=True, retired_at__isnull=True, next_at__isnull=False))
        ]  # fmt: skip

    def __str__(self) -> str:
        return self.name


class ScheduledFunction(models.Model):
    """A row that says: call this registered function with these arguments at this time; and how that went."""

    id = models.BigAutoField(primary_key=True)
    function = models.CharField(max_length=200)
    kind = models.CharField(max_length=8, choices=[(k, k) for k in Kind])
    queue = models.CharField(max_length=100, default="default")
    priority = models.SmallIntegerField(default=0, help_text="-100 to 100; higher goes first.")
    args = models.JSONField("arguments", default=dict)
    task_backend = models.CharField(
        max_length=100, null=True, blank=True, help_text="The alias in TASKS, for a @task of django-tasks."
    )
    status = models.CharField(max_length=11, choices=[(s, s.replace("_", " ")) for s in Status], default=Status.PENDING)
    parent = _loose("self", related_name="children", help_text="The scheduled function that scheduled it.")
    retry_of = _loose("self", related_name="retries", help_text="The attempt that failed before this one.")
    run_again_of = _loose("self", related_name="runs_again", help_text="The function that was run again by hand.")
    attempt = models.PositiveSmallIntegerField(default=1)
    cron = _loose(Cron, related_name="firings")
    fire_at = models.DateTimeField(null=True, blank=True, help_text="The fire time of its cron.")
    created_at = models.DateTimeField("scheduled", db_default=Now())
    run_at = models.DateTimeField("due", db_default=Now())
    started_at = models.DateTimeField("started", null=True, blank=True)
    ended_at = models.DateTimeField("ended", null=True, blank=True)
    cluster_id = models.UUIDField(null=True, blank=True, help_text="The cluster that ran it.")
    ran_by = models.CharField(max_length=200, null=True, blank=True, help_text="Host and process.")
    result = models.JSONField(null=True, blank=True)
    error = models.TextField(null=True, blank=True)
    error_class = models.CharField(max_length=200, null=True, blank=True)
    traceback = models.TextField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        permissions = (("operate_scheduledfunction", "Can cancel functions, run them again, and pause crons"),)
        constraints = [
            models.CheckConstraint(name="scheduled_function_state_is_known", condition=Q(status__in=sorted(Status))),
            models.CheckConstraint(
                name="scheduled_function_has_an_end_exactly_when_it_ended",
                condition=Q(status__in=sorted(ENDED), ended_at__isnull=False)
                | Q(status__in=sorted(LIVE), ended_at__isnull=True),
            ),
            models.CheckConstraint(
                name="only_an_action_is_in_progress_or_unknown",
                condition=_ACTION | ~Q(status__in=[Status.IN_PROGRESS, Status.UNKNOWN]),
            ),
            models.CheckConstraint(
                name="what_is_in_progress_has_a_start_and_a_cluster",
                condition=~_IN_PROGRESS | Q(started_at__isnull=False, cluster_id__isnull=False, ran_by__isnull=False),
            ),
            models.CheckConstraint(
                name="only_a_success_has_a_result", condition=Q(result__isnull=True) | Q(status=Status.SUCCESS)
            ),
            models.CheckConstraint(
                name="what_failed_or_is_unknown_says_why",
                condition=~Q(status__in=[Status.FAILED, Status.UNKNOWN]) | Q(error__isnull=False),
            ),
            models.CheckConstraint(
                name="a_firing_has_a_cron_and_a_fire_time",
                condition=Q(cron__isnull=True, fire_at__isnull=True) | Q(cron__isnull=False, fire_at__isnull=False),
            ),
            models.CheckConstraint(name="scheduled_function_attempts_count_from_one", condition=Q(attempt__gte=1)),
            models.UniqueConstraint(
                name="a_cron_fires_once_for_each_fire_time",
                fields=["cron", "fire_at"],
                condition=Q(cron__isnull=False, attempt=1),
            ),
        ]
        indexes = [
            models.Index("function", "id", name="scheduling_by_function"),
            models.Index("ended_at", "id", name="scheduling_ended", condition=Q(ended_at__isnull=False)),
            models.Index("cluster_id", name="scheduling_running", condition=_IN_PROGRESS),
            models.Index("status", "id", name="scheduling_unhappy",
                         condition=Q(status__in=[Status.CANCELED, Status.FAILED, Status.UNKNOWN])),
            models.Index("cron", name="scheduling_firings", condition=Q(cron__isnull=False, status__in=sorted(LIVE))),
            models.Index("status", "ended_at", name="scheduling_failed", condition=_FAILED),
            models.Index("ended_at", name="scheduling_failed_firings", condition=_FAILED & Q(cron__isnull=False)),
            models.Index("parent", name="scheduling_children", condition=Q(parent__isnull=False)),
            models.Index("retry_of", name="scheduling_retries", condition=Q(retry_of__isnull=False)),
        ]  # fmt: skip

    def __str__(self) -> str:
        return f"{self.function} #{self.pk}"


class Due(models.Model):
    """The narrow queue: one row for each pending function, and none for any other. Inserted with the function and
    deleted by the transaction that starts it; changed only when a run came to nothing."""

    function_id = models.BigIntegerField(primary_key=True)
    kind = models.CharField(max_length=8)
    queue = models.CharField(max_length=100)
    priority = models.SmallIntegerField()
    run_at = models.DateTimeField()
    next_at = models.DateTimeField(help_text="Not run before this moment: when it is due, or may be retried.")
    collisions = models.PositiveIntegerField(
        db_default=0, help_text="Runs of a mutation that were rolled back because they collided."
    )
    colliding_statement = models.TextField(null=True, blank=True, help_text="The statement that collided last.")
    deaths = models.PositiveSmallIntegerField(
        db_default=0,
        help_text="Quarters of deaths of the process that ran this mutation; a restart of the server is one.",
    )

    class Meta:
        indexes = [
            models.Index("kind", "queue", "priority", "next_at", "function_id", name="scheduling_due_lanes"),
            models.Index("collisions", name="scheduling_due_colliding", condition=Q(collisions__gt=0)),
        ]

    def __str__(self) -> str:
        return f"due #{self.function_id}"

    @property
    def whole_deaths(self) -> int:
        return self.deaths // RESTARTS


class Cluster(models.Model):
    """One life of one group of processes that runs scheduled functions."""

    cluster_id = models.UUIDField(primary_key=True)
    role = models.CharField(max_length=9)
    host = models.CharField(max_length=200)
    pid = models.IntegerField()
    started_at = models.DateTimeField("started", db_default=Now())
    last_seen_at = models.DateTimeField(
        "last seen", null=True, blank=True, help_text="Its last report; it reports once a second."
    )
    workers = models.PositiveSmallIntegerField(default=0)
    free = models.PositiveSmallIntegerField(default=0, help_text="Workers without a task.")
    waits = models.BooleanField(default=False, help_text="A task is waiting although a worker is free.")
    dispatched = models.BigIntegerField(db_default=0, help_text="How many tasks it has dispatched.")
    stat = models.BinaryField(null=True, blank=True, help_text="What django-q2's own monitor shows.")
    ended_at = models.DateTimeField("ended", null=True, blank=True)
    ending = models.CharField(
        max_length=7, null=True, blank=True, choices=[(e, e) for e in ("stopped", "died", "frozen", "lost")]
    )
    why = models.CharField("reason", max_length=200, null=True, blank=True)
    errors = ArrayField(models.TextField(), default=list, db_default=[], help_text="What it logged as errors lately.")

    class Meta:
        ordering = ["-started_at"]
        indexes = [models.Index("ended_at", name="scheduling_clusters_ended")]

    def __str__(self) -> str:
        return f"{self.role} on {self.host} ({self.pid})"
