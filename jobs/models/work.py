"""The tables on the way of a job. What a row must hold in each state is said by constraints that read as sentences.

Foreign keys on the way of a job carry no database constraint: the check cost a fifth of the claims (docs/adr/0007).
"""

from datetime import UTC, datetime
from typing import Any, Self
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import Group
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.domain.records import BEHIND
from jobs.domain.states import ENDED, AttemptOutcome, Status
from jobs.models.lanes import ConcurrencyKey, Lane
from jobs.models.workers import Requirement, Worker, loose

_WAITS = Q(lease_secret__isnull=True)
_RUNS = Q(lease_secret__isnull=False)
WAITING = Q(live__isnull=False, live__lease_secret__isnull=True)
RUNNING = Q(live__lease_secret__isnull=False)
LIVING = Q(live__isnull=False)
ENDED_ONES = Q(outcome__isnull=False)
_LARGE = ("payload", "inputs", "outcome__result")


def with_status(*statuses: str) -> Q:
    """The jobs that stand so; none of them named: none."""
    ends = sorted(ENDED.intersection(statuses))
    where = Q(outcome__status__in=ends) if ends or not statuses else Q()
    where |= WAITING if Status.PENDING in statuses else Q()
    return where | RUNNING if Status.IN_PROGRESS in statuses else where


class JobQuerySet(models.QuerySet["Job"]):
    """Jobs by where they stand. Whoever asks for a job's status asks here, or by the conditions beside.

    A job comes with its live row or its outcome, and without what may be large (`whole` has that too).
    """

    def waiting(self) -> Self:
        """Those that no worker has, due or not."""
        return self.filter(WAITING)

    def running(self) -> Self:
        """Those that a worker has."""
        return self.filter(RUNNING)

    def living(self) -> Self:
        """Those that wait or run."""
        return self.filter(LIVING)

    def ended(self, *statuses: str) -> Self:
        """Those that ended, or that ended so."""
        return self.filter(with_status(*statuses) if statuses else ENDED_ONES)

    def counted_in(self, queue: str) -> Self:
        """Those that run and count against the ceiling of this queue."""
        return self.running().filter(live__counted_in=queue)

    def whole(self) -> Self:
        """With payload, result and checkpoint, and whether they are kept."""
        return self.defer(None).select_related("kept", "content_deletion")


class _Jobs(models.Manager["Job"]):
    def get_queryset(self) -> JobQuerySet:
        return JobQuerySet(self.model, using=self._db).select_related("live", "outcome").defer(*_LARGE)


def _stands(name: str, otherwise: Any = None) -> Any:
    """An attribute of a job that stands on its live row, and on its outcome once it has ended."""
    return property(
        lambda job: getattr(job.state_row, name, otherwise), lambda job, value: setattr(job.state_row, name, value)
    )


class Job(models.Model):
    """The record: what was submitted, written once. Only what people do to it changes it: owner or group are deleted,
    priority, queue or limit changed while it waits.

    It has a live row exactly until it has an outcome (docs/adr/0111); what stands there is read here as well.
    """

    id = models.BigAutoField(primary_key=True)
    kind = models.CharField(max_length=100)
    queue = models.CharField(max_length=100)
    priority = models.SmallIntegerField(default=0, help_text="-100 to 100; higher goes first.")
    owner = loose(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, related_name="jobs")
    group = loose(Group, on_delete=models.SET_NULL, related_name="jobs")
    unique_key = models.CharField(max_length=200, null=True, blank=True)
    concurrency_key = models.CharField(max_length=200, null=True, blank=True)
    retry_of = loose("self", on_delete=models.SET_NULL, related_name="retries")

    created_at = models.DateTimeField("submitted at", db_default=Now())
    replaced_at = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="When a newer submit of its unique_key replaced its payload."
    )
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Not started by then: timed out.")
    max_attempts = models.PositiveSmallIntegerField(default=3)
    timeout_s = models.FloatField(null=True, blank=True)
    retry_when_lost = models.BooleanField(default=True, db_default=True)
    retry_on_timeout = models.BooleanField(default=False)
    requirement = loose(Requirement, on_delete=models.DO_NOTHING, related_name="+", editable=False)

    # What it took of its kind's limit when it was submitted; null for the many whose kind names none.
    limit_name = models.CharField(max_length=100, null=True, blank=True, editable=False)
    limit_key = models.CharField(max_length=50, null=True, blank=True, editable=False)
    limit_count = models.FloatField(null=True, blank=True, editable=False)
    limit_until = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="When the tokens it reserved have come in."
    )
    flow = loose("jobs.Flow", on_delete=models.DO_NOTHING, related_name="jobs", editable=False)
    # Which API token it was submitted with, and whether its end is looked at: it is metered, or its content not kept.
    token = loose("accounts.ApiToken", on_delete=models.DO_NOTHING, related_name="+", editable=False)
    is_metered = models.BooleanField(default=False, db_default=False, editable=False)

    # What is longer than two kilobytes PostgreSQL keeps beside the row: a list does not wade through it.
    payload = models.JSONField()
    traceparent = models.CharField(
        max_length=55, null=True, blank=True, editable=False, help_text="The trace that it was submitted in."
    )
    # Null for the many that have none; jobs are found by `Tag`.
    tags = ArrayField(models.TextField(), null=True, blank=True, editable=False)
    # What its claim says of its input files; null for the many that have none. Which uploads they are is in `Input`.
    inputs = models.JSONField(null=True, blank=True, editable=False)

    objects = _Jobs.from_queryset(JobQuerySet)()

    class Meta:
        ordering = ["-id"]
        permissions = [
            ("operate_job", "Can cancel, retry and move any job"),
            ("raise_priority", "Can give jobs any priority"),
            ("choose_queue", "Can put jobs into any queue"),
        ]
        indexes = [
            models.Index("owner", "id", name="jobs_of_owner", condition=Q(owner__isnull=False)),
            models.Index("group", "id", name="jobs_of_group", condition=Q(group__isnull=False)),
            models.Index("flow", "id", name="jobs_of_flow", condition=Q(flow__isnull=False)),
            models.Index("retry_of", name="jobs_retries", condition=Q(retry_of__isnull=False)),
            models.Index("requirement", name="jobs_of_requirement", condition=Q(requirement__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.kind} #{self.pk}"

    @property
    def state_row(self) -> "Live | Outcome | None":
        """Its live row or its outcome; None for one that has neither, which `doctor --jobs` finds."""
        row: Live | Outcome | None = getattr(self, "live", None) or getattr(self, "outcome", None)
        return row

    @property
    def result(self) -> Any:
        """What it came to; None while it lives."""
        outcome = getattr(self, "outcome", None)
        return outcome and outcome.result

    @property
    def checkpoint(self) -> Any:
        """What its worker last kept of what it has found out; None: nothing."""
        return getattr(getattr(self, "kept", None), "value", None)

    @property
    def is_behind(self) -> bool:
        """Whether other jobs have to end first: one that has its unique_key, or those that it comes after."""
        return self.run_at == BEHIND

    status: str = _stands("status", Status.PENDING)
    run_at: datetime = _stands("run_at", datetime.max.replace(tzinfo=UTC))
    attempt: int = _stands("attempt", 0)
    failures: int = _stands("failures", 0)
    fence: int = _stands("fence", 0)
    confirmed_fence: int = _stands("confirmed_fence", 0)
    releases: int = _stands("releases", 0)
    in_flow: bool = _stands("in_flow", False)
    has_key: bool = _stands("has_key", False)
    unconfirmed: int = _stands("unconfirmed", 0)
    lane_id: int | None = _stands("lane_id")
    counted_in: str | None = _stands("counted_in")
    lease_secret: UUID | None = _stands("lease_secret")
    lease_expires_at: datetime | None = _stands("lease_expires_at")
    deadline_at: datetime | None = _stands("deadline_at")
    worker_id: int | None = _stands("worker_id")
    worker: Worker | None = _stands("worker")
    worker_name: str | None = _stands("worker_name")
    claimed_at: datetime | None = _stands("claimed_at")
    ended_at: datetime | None = _stands("ended_at")
    progress: float | None = _stands("progress")
    detail: str | None = _stands("detail")
    next_seq: int = _stands("next_seq", 0)
    output_bytes: int = _stands("output_bytes", 0)
    earlier_output_bytes: int = _stands("earlier_output_bytes", 0)


class _Run(models.Model):
    """How the last claim of a job went so far: of a live row, and in the end of the outcome."""

    kind = models.CharField(max_length=100)
    queue = models.CharField(max_length=100)
    run_at = models.DateTimeField(
        "not before", db_default=Now(), help_text="Since when it is due, or was for the last time."
    )
    failures = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="Attempts that failed, were lost or timed out so far."
    )
    fence = models.BigIntegerField(default=0, db_default=0, help_text="How often it was claimed; only ever grows.")
    confirmed_fence = models.BigIntegerField(
        default=0, db_default=0, help_text="Number of the last confirmed claim; 0: none was confirmed."
    )
    worker = loose(Worker, on_delete=models.DO_NOTHING, related_name="+")
    worker_name = models.CharField(max_length=100, null=True, blank=True)
    claimed_at = models.DateTimeField(null=True, blank=True)
    progress = models.FloatField(null=True, blank=True)
    detail = models.CharField(max_length=200, null=True, blank=True)
    next_seq = models.IntegerField(
        default=0, db_default=0, help_text="Number of the next piece of output of this attempt."
    )
    output_bytes = models.BigIntegerField(default=0, db_default=0, help_text="Written by this attempt.")
    earlier_output_bytes = models.BigIntegerField(
        default=0, db_default=0, help_text="Written by the attempts before it."
    )

    class Meta:
        abstract = True


class Live(_Run):
    """A job that waits, or runs while it has a secret: the one row that claims, heartbeats and ends write."""

    job = models.OneToOneField(Job, models.DO_NOTHING, primary_key=True, db_constraint=False, related_name="live")
    owner = loose(settings.AUTH_USER_MODEL, on_delete=models.DO_NOTHING, related_name="+")
    group = loose(Group, on_delete=models.DO_NOTHING, related_name="+")
    requirement = loose(Requirement, on_delete=models.DO_NOTHING, related_name="+")
    key = loose(ConcurrencyKey, on_delete=models.DO_NOTHING, related_name="+")
    lane = models.ForeignKey(Lane, models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+")
    expires_at = models.DateTimeField(null=True, blank=True)
    timeout_s = models.FloatField(null=True, blank=True)
    is_metered = models.BooleanField(default=False, db_default=False)
    has_key = models.BooleanField(default=False, db_default=False, help_text="It has a row of UniqueKey.")
    in_flow = models.BooleanField(default=False, db_default=False, help_text="It has a row of Step.")
    has_checkpoint = models.BooleanField(default=False, db_default=False, help_text="It has a row of Checkpoint.")
    releases = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="How often in a row it was released."
    )
    unconfirmed = models.SmallIntegerField(
        default=0, db_default=0, help_text="How often in a row no call named its lease."
    )

    request = models.UUIDField(null=True, blank=True, help_text="Which call of its worker claimed it.")
    lease_secret = models.UUIDField(null=True, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    deadline_at = models.DateTimeField(null=True, blank=True, help_text="When this run times out.")
    counted_in = models.CharField(
        max_length=100, null=True, blank=True, help_text="The queue whose ceiling this run counts against."
    )

    class Meta:
        constraints = [
            # One: PostgreSQL reads each condition from its text in every statement (docs/adr/0037).
            models.CheckConstraint(
                name="job_has_a_lease_exactly_while_in_progress",
                condition=Q(lease_secret__isnull=True, lease_expires_at__isnull=True)
                | Q(
                    lease_secret__isnull=False,
                    lease_expires_at__isnull=False,
                    worker__isnull=False,
                    claimed_at__isnull=False,
                    fence__gte=1,
                ),
            )
        ]
        indexes = [
            models.Index("lane", "run_at", "job", name="jobs_waiting", condition=_WAITS),
            models.Index("worker", "job", name="jobs_running", condition=_RUNS),
            models.Index("owner", "queue", "lane", name="jobs_waiting_of_owner",
                         condition=_WAITS & Q(owner__isnull=False)),
            models.Index("group", "queue", "lane", name="jobs_waiting_of_group",
                         condition=_WAITS & Q(group__isnull=False)),
            models.Index("expires_at", name="jobs_expiring", condition=_WAITS & Q(expires_at__isnull=False)),
            models.Index("counted_in", name="jobs_counted", condition=Q(counted_in__isnull=False)),
            models.Index("requirement", "owner", name="jobs_living_of_requirement",
                         condition=Q(requirement__isnull=False)),
            models.Index("key", name="jobs_running_of_key", condition=_RUNS & Q(key__isnull=False)),
            models.Index("key", "run_at", "job", name="jobs_waiting_of_key", condition=_WAITS & Q(key__isnull=False)),
            models.Index("job", name="jobs_unconfirmed", condition=Q(unconfirmed__gte=2)),
        ]  # fmt: skip

    @property
    def status(self) -> str:
        return (Status.PENDING if self.lease_secret is None else Status.IN_PROGRESS).value

    @property
    def attempt(self) -> int:
        """Number of the current attempt, or the last. Released or unconfirmed claims are none."""
        return self.failures + (self.lease_secret is not None)


class Outcome(_Run):
    """How a job ended: written once, never changed."""

    job = models.OneToOneField(Job, models.DO_NOTHING, primary_key=True, db_constraint=False, related_name="outcome")
    status = models.CharField(max_length=9, choices=[(s, s.replace("_", " ")) for s in sorted(map(str, ENDED))])
    ended_at = models.DateTimeField(db_default=Now())
    attempt = models.PositiveSmallIntegerField(default=0, db_default=0, help_text="Number of the last attempt.")
    last_secret = models.UUIDField(null=True, blank=True, help_text="Secret of the lease that ended last.")
    result = models.JSONField(null=True, blank=True)

    class Meta:
        constraints = [models.CheckConstraint(name="an_outcome_is_an_end", condition=Q(status__in=sorted(ENDED)))]
        indexes = [
            models.Index("ended_at", "job", name="jobs_ended"),
            models.Index(
                "status", "job", name="jobs_unhappy", condition=Q(status__in=sorted(ENDED - {Status.SUCCESS}))
            ),
        ]


class UniqueKey(models.Model):
    """The key of a living job that has one; it goes with its live row."""

    job = models.OneToOneField(Job, models.DO_NOTHING, primary_key=True, db_constraint=False, related_name="+")
    kind = models.CharField(max_length=100)
    unique_key = models.CharField(max_length=200)
    owner = loose(settings.AUTH_USER_MODEL, on_delete=models.DO_NOTHING, related_name="+")
    follower = loose(
        Job, on_delete=models.DO_NOTHING, related_name="+", help_text="It waits behind, and has the key next."
    )
    follower_due_at = models.DateTimeField(null=True, blank=True, help_text="Not before this moment, even then.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="only_one_live_job_per_owner_kind_and_unique_key",
                fields=["kind", "unique_key", "owner"],
                nulls_distinct=False,  # jobs without an owner are the site's own, one space of keys
            )
        ]
        indexes = [models.Index("follower", name="jobs_followers", condition=Q(follower__isnull=False))]


class Attempt(models.Model):
    """One claim of one job that ended without success. The current one lives on the job's row.

    `attempt` is null for one that does not count: it was given back, or no call ever named its lease. `secret` is that
    of its lease.
    """

    job = models.ForeignKey(Job, models.CASCADE, db_constraint=False, db_index=False, related_name="attempts")
    number = models.BigIntegerField(help_text="The claim number.")
    attempt = models.PositiveSmallIntegerField(null=True, blank=True)
    secret = models.UUIDField(null=True, blank=True, editable=False)
    outcome = models.CharField(max_length=13, choices=[(o, o.replace("_", " ")) for o in AttemptOutcome])
    worker = loose(Worker, on_delete=models.DO_NOTHING, related_name="attempts")
    worker_name = models.CharField(max_length=100)
    claimed_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    error = models.TextField(blank=True, help_text="The error, with its traceback if there is one.")

    class Meta:
        ordering = ["job", "number"]
        constraints = [models.UniqueConstraint(fields=["job", "number"], name="an_attempt_ends_once")]
        indexes = [models.Index("worker", "ended_at", name="jobs_attempts_of_worker")]

    def __str__(self) -> str:
        return f"attempt {self.number} of job {self.job_id}"


class OutputChunk(models.Model):
    """A piece of text that an attempt wrote. Numbered from 0 in each attempt, without gaps."""

    pk = models.CompositePrimaryKey("job_id", "attempt", "seq")
    job = models.ForeignKey(Job, models.CASCADE, db_constraint=False, db_index=False, related_name="output")
    attempt = models.BigIntegerField()
    seq = models.IntegerField()
    text = models.TextField()
    written_at = models.DateTimeField(db_default=Now())


class ResultFile(models.Model):
    """A file that an attempt handed in, in Django's storage."""

    job = models.ForeignKey(Job, models.CASCADE, db_constraint=False, db_index=False, related_name="files")
    attempt = models.BigIntegerField()
    name = models.CharField(max_length=100)
    stored_as = models.CharField(max_length=255, editable=False)
    size = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "attempt", "name"], name="a_file_name_is_used_once")]

    def __str__(self) -> str:
        return self.name
