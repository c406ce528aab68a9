"""Jobs that come after other jobs (docs/adr/0127): what only those have that are part of a flow."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.domain.flows import WAITED, Condition
from jobs.models.kinds import valid_name
from jobs.models.work import Job
from jobs.models.workers import loose


class Flow(models.Model):
    """Jobs that are connected, some of which come after others (docs/adr/0127)."""

    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return f"flow {self.pk}"


class FlowTemplate(models.Model):
    """A stored, named list of jobs with placeholders, each start of which is a flow."""

    name = models.CharField(max_length=100, primary_key=True, validators=[valid_name])
    description = models.CharField(max_length=200, blank=True, default="")
    placeholders = models.JSONField(
        default=dict,
        blank=True,
        help_text='Names of values, each with its default: {"document": null, "language": "en"}. With null each start '
        "has to say it.",
    )
    jobs = models.JSONField(
        help_text='A list: [{"name": "split", "kind": "text", "payload": {"document": "{{ document }}"}}, {"name": '
        '"join", "kind": "text", "after": ["split"]}]. Each may also have when, queue, priority, max_attempts, '
        "timeout_s, unique_key, concurrency_key, tags, requires and prefers."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Step(models.Model):
    """A job's place in its flow. A retry takes the place of what it tries again: `place_id` is the first job there.

    One that another submitted is its `parent`'s at this `position`: whoever submits there again gets this one. An index
    without the word unique says so, since all who look there have locked the parent."""

    job = models.OneToOneField(Job, models.DO_NOTHING, primary_key=True, db_constraint=False, related_name="step")
    name = models.CharField(max_length=100, blank=True, default="")
    place_id = models.BigIntegerField()
    depth = models.SmallIntegerField(default=0, help_text="How many jobs come one after another before it.")
    due_at = models.DateTimeField(null=True, blank=True, help_text="Not before this moment, even then.")
    expires_s = models.FloatField(null=True, blank=True, help_text="From when it may start.")
    canceled_for = loose(
        Job, on_delete=models.DO_NOTHING, related_name="+", help_text="It was canceled, for this one did not succeed."
    )
    parent = loose(Job, on_delete=models.DO_NOTHING, related_name="+", help_text="Its handler submitted this one.")
    position = models.SmallIntegerField(null=True, blank=True, help_text="Among those of its parent; counts from 0.")
    outlives = models.BooleanField(default=False, db_default=False, help_text="It is not canceled with its parent.")

    class Meta:
        indexes = [
            models.Index("place_id", "job", name="jobs_steps_of_place"),
            models.Index("canceled_for", name="jobs_steps_canceled", condition=Q(canceled_for__isnull=False)),
            models.Index("parent", "position", name="jobs_steps_of_parent", condition=Q(parent__isnull=False)),
        ]


class Edge(models.Model):
    """A job comes after another: once that has succeeded, or ended however it did.

    `open_of` is the job as long as the other lives: what is still open of a job is found by it alone, however many
    edges are closed.
    """

    pk = models.CompositePrimaryKey("job_id", "after_id")
    job_id = models.BigIntegerField()
    after_id = models.BigIntegerField()
    condition = models.CharField(max_length=7, choices=[(one, one) for one in (*Condition, WAITED)])
    open_of = models.BigIntegerField(null=True)

    class Meta:
        indexes = [
            models.Index("after_id", name="jobs_edges_after"),
            models.Index("open_of", name="jobs_open_edges", condition=Q(open_of__isnull=False)),
        ]


class Suspension(models.Model):
    """What a job is or was suspended for, if that is not only other jobs: a signal, or a time that runs out. One row of
    its last suspend. `until` is kept while it waits."""

    job = models.OneToOneField(Job, models.DO_NOTHING, primary_key=True, db_constraint=False, related_name="+")
    signal = models.CharField(max_length=100, blank=True, default="")
    signal_key = models.CharField(max_length=200, blank=True, default="", db_default="")
    schema = models.TextField(null=True, blank=True, help_text="JSON, in the order that it came in.")
    until = models.DateTimeField(null=True, blank=True)
    timed_out = models.BooleanField(default=False, db_default=False)
    taken = loose("jobs.Signal", on_delete=models.DO_NOTHING, related_name="+", help_text="What came.")

    class Meta:
        indexes = [
            models.Index("until", name="jobs_suspended_until", condition=Q(until__isnull=False)),
            models.Index(
                "signal_key", "signal", "job", name="jobs_suspended_by_key",
                condition=~Q(signal_key="") & Q(taken__isnull=True, timed_out=False),
            ),
        ]  # fmt: skip


class Signal(models.Model):
    """What came from outside for a job: kept until it waits for that. `key` is what its sender calls it.

    One without a job is for all that wait for its `signal_key`, or for the first one of each owner that will: of
    `sender_id` alone, if that is somebody. Each of those jobs is given a copy (`of_id`), with its owner as `sender_id`.
    """

    job = loose(Job, null=True, related_name="+")
    signal_key = models.CharField(max_length=200, blank=True, default="", db_default="")
    sender_id = models.BigIntegerField(null=True, blank=True)
    of_id = models.BigIntegerField(null=True, blank=True)
    is_new = models.BooleanField(default=False, db_default=False, help_text="Nobody has looked yet who waits for it.")
    name = models.CharField(max_length=100)
    key = models.CharField(max_length=64)
    data = models.JSONField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    taken_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "key"], name="a_signal_comes_once"),
            models.UniqueConstraint(
                fields=["signal_key", "name", "key", "sender_id"],
                condition=Q(job__isnull=True),
                nulls_distinct=False,
                name="a_keyed_signal_comes_once",
            ),
        ]
        indexes = [
            models.Index("created_at", name="jobs_signals_kept", condition=Q(taken_at__isnull=True)),
            models.Index("created_at", name="jobs_signals_keyed", condition=Q(job__isnull=True)),
            models.Index("id", name="jobs_signals_new", condition=Q(is_new=True)),
            models.Index("of_id", "sender_id", name="jobs_signals_copied", condition=Q(of_id__isnull=False)),
        ]  # fmt: skip


class EndedStep(models.Model):
    """A job that ended while others come after it, for as long as nobody has looked which of them may start."""

    job_id = models.BigIntegerField(db_index=True)
    ended_at = models.DateTimeField(db_default=Now())
