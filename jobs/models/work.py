"""The tables on the way of a job. What a row must hold in each state is said by constraints that read as sentences.

Foreign keys on the way of a job carry no database constraint: the check cost a fifth of the claims (docs/adr/0007).
"""

from datetime import datetime
from typing import Any, Self

from django.conf import settings
from django.contrib.auth.models import Group
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.domain import labels
from jobs.domain.states import ENDED, LIVE, AttemptOutcome, Status
from jobs.models.kinds import valid_name
from jobs.models.lanes import Lane

WAITING = Q(status=Status.PENDING)
WAITS = Q(ended_at__isnull=True, lease_secret__isnull=True)  # the same, for indexes that are not to be mistaken
RUNNING = Q(status=Status.IN_PROGRESS)
LIVING = Q(status__in=sorted(LIVE))
ENDED_ONES = Q(ended_at__isnull=False)


def _loose(to: Any, **options: Any) -> Any:
    """A foreign key that the ORM follows and the database does not check."""
    return models.ForeignKey(to, null=True, blank=True, db_constraint=False, db_index=False, **options)


class Queue(models.Model):
    """Where workers look. It exists once a kind or a worker names it."""

    name = models.CharField(max_length=100, primary_key=True, validators=[valid_name])
    paused_at = models.DateTimeField(null=True, blank=True, help_text="While paused, nothing of it is claimed.")
    paused_by = _loose(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, related_name="+", editable=False)
    ceiling = models.PositiveSmallIntegerField(
        null=True, blank=True, help_text="How many of its jobs may run at the same time; empty means any number."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    # The member whose worker named it first; null for those of code, kinds and operators.
    made_by = _loose(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, related_name="+", editable=False)
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
    drained_by = _loose(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, related_name="+", editable=False)
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
    base = _loose("self", on_delete=models.DO_NOTHING, related_name="+")  # what is required, without the preferences
    created_at = models.DateTimeField(db_default=Now())
    retired_at = models.DateTimeField(null=True, help_text="Since then no living job has it.")

    class Meta:
        indexes = [models.Index(fields=["id"], name="jobs_requirements_in_use", condition=Q(retired_at__isnull=True))]

    def __str__(self) -> str:
        return labels.in_words(self.requires) or f"prefers {labels.in_words(self.prefers)}"


# PostgreSQL reads each condition of a CHECK from its text in every statement: what these two leave to `doctor --jobs`
# was a fourteenth of the time of a submit (docs/adr/0037).
_LEASED = Q(
    *(Q((f"{column}__isnull", False)) for column in ("lease_secret", "lease_expires_at", "worker", "claimed_at")),
    fence__gte=1,
)


def with_status(*statuses: str) -> Q:
    """The jobs that stand so; none of them named: none."""
    return Q(status__in=sorted(statuses))


class JobQuerySet(models.QuerySet["Job"]):
    """Jobs by where they stand. Whoever asks for a job's status asks here, or by the conditions beside."""

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
        return self.running().filter(counted_in=queue)


class Job(models.Model):
    """A row that stands for work. Payload and result lie in `Body`, ended attempts in `Attempt`."""

    id = models.BigAutoField(primary_key=True)
    kind = models.CharField(max_length=100)
    queue = models.CharField(max_length=100)
    status = models.CharField(max_length=11, choices=[(s, s.replace("_", " ")) for s in Status], default=Status.PENDING)
    priority = models.SmallIntegerField(default=0, help_text="-100 to 100; higher goes first.")
    owner = _loose(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, related_name="jobs")
    group = _loose(Group, on_delete=models.SET_NULL, related_name="jobs")
    unique_key = models.CharField(max_length=200, null=True, blank=True)
    retry_of = _loose("self", on_delete=models.SET_NULL, related_name="retries")

    created_at = models.DateTimeField("submitted at", db_default=Now())
    run_at = models.DateTimeField("not before", db_default=Now())
    expires_at = models.DateTimeField(null=True, blank=True, help_text="Not started by then: timed out.")
    max_attempts = models.PositiveSmallIntegerField(default=3)
    attempt = models.PositiveSmallIntegerField(
        default=0, db_default=0,
        help_text="Number of the current attempt, or the last. Released or unconfirmed claims are none.",
    )  # fmt: skip
    failures = models.PositiveSmallIntegerField(
        default=0, help_text="Attempts that failed, were lost or timed out so far."
    )
    timeout_s = models.FloatField(null=True, blank=True)
    retry_when_lost = models.BooleanField(default=True, db_default=True)
    retry_on_timeout = models.BooleanField(default=False)

    requirement = _loose(Requirement, on_delete=models.DO_NOTHING, related_name="+", editable=False)
    lane = _loose(Lane, on_delete=models.DO_NOTHING, related_name="+", editable=False)
    counted_in = models.CharField(
        max_length=100, null=True, blank=True, editable=False,
        help_text="The queue whose ceiling this run counts against.",
    )  # fmt: skip

    fence = models.BigIntegerField(default=0, help_text="How often it was claimed; only ever grows.")
    confirmed_fence = models.BigIntegerField(
        default=0, db_default=0,
        help_text="Number of the last confirmed claim; 0: none was confirmed.",
    )  # fmt: skip
    request = models.UUIDField(null=True, blank=True, editable=False, help_text="Which call of its worker claimed it.")
    last_secret = models.UUIDField(
        null=True, blank=True, editable=False, help_text="Secret of the lease that ended last."
    )
    releases = models.PositiveSmallIntegerField(
        default=0, db_default=0, help_text="How often in a row it was released."
    )
    unconfirmed = models.SmallIntegerField(
        default=0, db_default=0, help_text="How often in a row no call named its lease."
    )
    lease_secret = models.UUIDField(null=True, blank=True, editable=False)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    deadline_at = models.DateTimeField(null=True, blank=True, help_text="When this run times out.")
    worker = _loose(Worker, on_delete=models.DO_NOTHING, related_name="jobs")
    worker_name = models.CharField(max_length=100, null=True, blank=True)
    claimed_at = models.DateTimeField(null=True, blank=True)
    next_seq = models.IntegerField(default=0, help_text="Number of the next piece of output of this attempt.")
    output_bytes = models.BigIntegerField(default=0, db_default=0, help_text="Written by this attempt.")
    earlier_output_bytes = models.BigIntegerField(
        default=0, db_default=0, help_text="Written by the attempts before it."
    )
    progress = models.FloatField(null=True, blank=True)
    detail = models.CharField(max_length=200, null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    # What it took of its kind's limit when it was submitted; null for the many whose kind names none.
    limit_name = models.CharField(max_length=100, null=True, blank=True, editable=False)
    limit_key = models.CharField(max_length=50, null=True, blank=True, editable=False)
    limit_count = models.FloatField(null=True, blank=True, editable=False)
    limit_until = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="When the tokens it reserved have come in."
    )
    # Which API token it was submitted with, and whether an app meters it (jobs.domain.meters).
    token = _loose("accounts.ApiToken", on_delete=models.DO_NOTHING, related_name="+", editable=False)
    is_metered = models.BooleanField(default=False, db_default=False, editable=False)

    objects = JobQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        permissions = [
            ("operate_job", "Can cancel, retry and move any job"),
            ("raise_priority", "Can give jobs any priority"),
            ("choose_queue", "Can put jobs into any queue"),
        ]
        constraints = [
            models.CheckConstraint(
                name="job_has_a_lease_exactly_while_in_progress",
                condition=(RUNNING & _LEASED) | (~RUNNING & Q(lease_secret__isnull=True)),
            ),
            models.CheckConstraint(
                name="job_has_an_end_exactly_when_it_ended",
                condition=Q(status__in=sorted(ENDED), ended_at__isnull=False)
                | Q(status__in=sorted(LIVE), ended_at__isnull=True),
            ),
            models.UniqueConstraint(
                name="only_one_live_job_per_owner_kind_and_unique_key",
                fields=["kind", "unique_key", "owner"],
                condition=Q(status__in=sorted(LIVE), unique_key__isnull=False),
                nulls_distinct=False,  # jobs without an owner are the site's own, one space of keys
            ),
        ]
        indexes = [
            models.Index("lane", "run_at", "id", name="jobs_waiting", condition=WAITING),
            models.Index("owner", "queue", name="jobs_waiting_of_owner", condition=WAITS & Q(owner__isnull=False)),
            models.Index("group", "queue", name="jobs_waiting_of_group", condition=WAITS & Q(group__isnull=False)),
            models.Index(fields=["counted_in"], name="jobs_counted",
                         condition=RUNNING & Q(counted_in__isnull=False)),
            models.Index("worker", "id", name="jobs_running", condition=RUNNING),
            models.Index("expires_at", name="jobs_expiring", condition=WAITING & Q(expires_at__isnull=False)),
            models.Index("ended_at", "id", name="jobs_ended", condition=Q(ended_at__isnull=False)),
            models.Index("status", "id", name="jobs_unhappy",
                         condition=Q(status__in=[Status.CANCELED, Status.FAILED, Status.TIMED_OUT])),
            models.Index("owner", "id", name="jobs_of_owner", condition=Q(owner__isnull=False)),
            models.Index("group", "id", name="jobs_of_group", condition=Q(group__isnull=False)),
            models.Index("retry_of", name="jobs_retries", condition=Q(retry_of__isnull=False)),
            models.Index("requirement", name="jobs_of_requirement", condition=Q(requirement__isnull=False)),
            models.Index("requirement", "owner", name="jobs_living_of_requirement",
                         condition=Q(requirement__isnull=False, status__in=sorted(LIVE))),
            models.Index("id", name="jobs_unconfirmed", condition=Q(status__in=sorted(LIVE), unconfirmed__gte=2)),
        ]  # fmt: skip

    def __str__(self) -> str:
        return f"{self.kind} #{self.pk}"


class Body(models.Model):
    """Payload and result of a job, apart from it: the claim and the heartbeats rewrite the job's row, not this one."""

    job = models.OneToOneField(Job, models.CASCADE, primary_key=True, db_constraint=False, related_name="body")
    payload = models.JSONField()
    result = models.JSONField(null=True, blank=True)
    traceparent = models.CharField(
        max_length=55, null=True, blank=True, editable=False, help_text="The trace that it was submitted in."
    )
    # What its claim says of its input files; null for the many that have none. Which uploads they are is in `Input`.
    inputs = models.JSONField(null=True, blank=True, editable=False)


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
    worker = _loose(Worker, on_delete=models.DO_NOTHING, related_name="attempts")
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


class Share(models.Model):
    """A link that shows one job to whoever has it, without a log-in."""

    job = models.OneToOneField(Job, models.CASCADE, primary_key=True, db_constraint=False, related_name="share")
    token = models.CharField(max_length=43, unique=True, editable=False)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, db_constraint=False)
    created_at = models.DateTimeField(db_default=Now())
