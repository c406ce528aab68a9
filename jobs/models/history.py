"""Tables beside the way of a job: what was counted of the past, what an attempt went through, what was done to many."""

from typing import Any

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from jobs.domain.bulks import BulkAction, Phase
from jobs.domain.rollups import STEPS_S
from jobs.models.workers import loose


class Rollup(models.Model):
    """What jobs of one kind came into one queue and left it within one step of time. Made by the roll-up alone
    (docs/adr/0033). Rows from before kinds were counted have an empty `kind`.

    `ran` and `waited` count the runs that ended a job by themselves, by how long they took and how long the job had
    been due before: {bucket: number}, buckets as in `jobs.domain.rollups`.
    """

    pk = models.CompositePrimaryKey("step_s", "at", "queue", "kind")
    step_s = models.SmallIntegerField()
    at = models.DateTimeField()
    queue = models.CharField(max_length=100)
    kind = models.CharField(max_length=100, db_default="")
    arrived = models.IntegerField()
    success = models.IntegerField()
    failed = models.IntegerField()
    canceled = models.IntegerField()
    timed_out = models.IntegerField()
    ran = models.JSONField()
    waited = models.JSONField()

    class Meta:
        constraints = [
            models.CheckConstraint(name="a_rollup_has_a_known_step", condition=Q(step_s__in=sorted(STEPS_S)))
        ]


class RollupWatermark(models.Model):
    """How far the roll-up is: one row. Before `settled_until` nothing can be added to any more."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    settled_until = models.DateTimeField()
    counted_at = models.DateTimeField()

    class Meta:
        constraints = [models.CheckConstraint(name="there_is_one_rollup_watermark", condition=Q(id=1))]


class Stage(models.Model):
    """A detail that an attempt reported, from when on. Written by the heartbeat that changes the detail."""

    pk = models.CompositePrimaryKey("job_id", "attempt", "number")
    job = models.ForeignKey("jobs.Job", models.CASCADE, db_constraint=False, db_index=False, related_name="stages")
    attempt = models.BigIntegerField()
    number = models.SmallIntegerField()
    detail = models.CharField(max_length=200)
    progress = models.FloatField(null=True)
    began_at = models.DateTimeField(db_default=Now())


class Checkpoint(models.Model):
    """What a job has found out so far, as its worker last kept it. It lies beside the record of those jobs alone that
    have one (`Live.has_checkpoint`), and goes with the job."""

    job = models.OneToOneField("jobs.Job", models.CASCADE, primary_key=True, db_constraint=False, related_name="kept")
    fence = models.BigIntegerField(help_text="Number of the claim that kept it; 0: of the job that this one retries.")
    value = models.JSONField()
    children = models.SmallIntegerField(
        default=0, db_default=0, help_text="How many jobs it had submitted by then: the next one has this position."
    )
    written_at = models.DateTimeField(db_default=Now())


class ContentDeletion(models.Model):
    """A job whose content is not kept: what it was given and gave is deleted, or redacted, a while after its end
    (docs/adr/0140)."""

    job = models.OneToOneField(
        "jobs.Job", models.CASCADE, primary_key=True, db_constraint=False, related_name="content_deletion"
    )
    patterns = models.TextField(default="", db_default="", help_text="What of it alone is redacted; empty: all goes.")
    deleted_at = models.DateTimeField(null=True, help_text="When it was deleted or redacted.")


def keeps_content(job: Any) -> bool:
    """Whether what this job was given and gave stays, redacted or not."""
    deletion: ContentDeletion | None = getattr(job, "content_deletion", None)
    return deletion is None or bool(deletion.patterns)


class Tag(models.Model):
    """A tag of a job: the way from the tag to its newest jobs. Written with the job, it goes with the job."""

    pk = models.CompositePrimaryKey("tag", "job_id")
    tag = models.TextField()
    job = models.ForeignKey("jobs.Job", models.CASCADE, db_constraint=False, db_index=False, related_name="tag_rows")


class Share(models.Model):
    """A link that shows one job to whoever has it, without a log-in."""

    job = models.OneToOneField("jobs.Job", models.CASCADE, primary_key=True, db_constraint=False, related_name="share")
    token = models.CharField(max_length=43, unique=True, editable=False)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, db_constraint=False)
    created_at = models.DateTimeField(db_default=Now())


class ViewToken(models.Model):
    """Lets whoever has its key look at one job, or at the jobs of a tag that its maker may see, until it expires; it is
    deleted to end it before. Only the hash of its key is kept."""

    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, db_constraint=False, related_name="+", verbose_name="created by"
    )
    key_hash = models.CharField(max_length=64, unique=True, editable=False)
    job = loose("jobs.Job", on_delete=models.CASCADE, related_name="+")
    tag = models.TextField(null=True, blank=True)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index("expires_at", name="jobs_view_tokens_by_end")]
        constraints = [
            models.CheckConstraint(
                name="a_view_token_is_for_a_job_or_a_tag",
                condition=Q(job__isnull=False, tag__isnull=True) | Q(job__isnull=True, tag__isnull=False),
            )
        ]

    def __str__(self) -> str:
        return f"view of job {self.job_id}" if self.job_id else f"view of the tag {self.tag}"


class Origin(models.Model):
    """The scheduled function that submitted a job. Most jobs come from people and have none."""

    job = models.OneToOneField("jobs.Job", models.CASCADE, primary_key=True, db_constraint=False, related_name="origin")
    function_id = models.BigIntegerField()


class Offspring(models.Model):
    """A scheduled function that the hook of a job's kind scheduled as the job moved. Most kinds have no hook."""

    function_id = models.BigIntegerField(primary_key=True)
    job = models.ForeignKey("jobs.Job", models.CASCADE, db_constraint=False, related_name="offspring")


class IdempotencyKey(models.Model):
    """A request that came with an Idempotency-Key, and which jobs it was answered with (docs/adr/0049)."""

    pk = models.CompositePrimaryKey("owner_id", "key")
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, db_constraint=False, db_index=False, related_name="+"
    )
    key = models.CharField(max_length=255, db_collation="C")
    fingerprint = models.BinaryField(help_text="SHA-256 of the request.")
    created_at = models.DateTimeField()
    job_ids = ArrayField(
        models.BigIntegerField(null=True), default=list, help_text="The job of each entry; of one left out, its twin."
    )
    skipped = ArrayField(
        models.SmallIntegerField(), default=list, help_text="Places of the entries that had a twin, from 0."
    )
    replaced = ArrayField(
        models.SmallIntegerField(), null=True, help_text="Places of the entries that replaced a job that waited."
    )

    class Meta:
        indexes = [models.Index("created_at", name="jobs_idempotency_keys_by_age")]

    def __str__(self) -> str:
        return self.key


class Bulk(models.Model):
    """One bulk action on everything that matches: first counted, then, if somebody says so, done, in batches."""

    by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, db_index=False, related_name="bulks", verbose_name="created by"
    )
    action = models.CharField(
        max_length=15, choices=[(action.value, action.replace("_", " ")) for action in BulkAction]
    )
    value = models.CharField(max_length=100, blank=True, help_text="The new queue or priority.")
    filters = models.JSONField(help_text="The filters of the list.")
    undoes = models.OneToOneField(
        "self", models.CASCADE, null=True, blank=True, related_name="undone_by",
        help_text="The bulk action that this one undoes.",
    )  # fmt: skip
    back = models.TextField(blank=True, default="", db_default="", help_text="The page that it was asked on.")
    error = models.TextField(blank=True, default="", db_default="", help_text="What all of the jobs failed of.")
    begins_up_to = models.BigIntegerField(
        null=True, blank=True, help_text="It begins once counted if no more jobs match; empty: when somebody says so."
    )
    phase = models.CharField(max_length=8, choices=[(p.value, p.value) for p in Phase], default=Phase.COUNTING.value)
    top_id = models.BigIntegerField(help_text="Jobs with greater ids were submitted later, and are not changed.")
    next_id = models.BigIntegerField(help_text="Jobs below this id are still to be handled.")
    matched = models.BigIntegerField(default=0)
    handled = models.BigIntegerField(default=0)
    changed = models.BigIntegerField(default=0)
    results = models.JSONField(default=dict, help_text="How many jobs had which result.")
    why = models.CharField(max_length=200, blank=True, help_text="Why it stopped.")
    created_at = models.DateTimeField(db_default=Now())
    began_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index("by", "id", name="jobs_bulks_of")]

    def __str__(self) -> str:
        return f"{self.action.replace('_', ' ')} many #{self.pk}"

    @property
    def undone_by_id(self) -> int | None:
        """The bulk that takes this one back, if somebody asked for that."""
        undoing: Bulk | None = getattr(self, "undone_by", None)
        return None if undoing is None else undoing.pk


class SavedFilter(models.Model):
    """The filters of a list of jobs under a name, for one person."""

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, db_index=False, related_name="saved_filters")
    name = models.CharField(max_length=60)
    query = models.JSONField(help_text="The filters and the order, as the list's address has them.")

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint("owner", "name", name="jobs_saved_filter_has_one_name")]

    def __str__(self) -> str:
        return self.name


class BulkItem(models.Model):
    """One job that a bulk changed, and what is needed to take that back."""

    pk = models.CompositePrimaryKey("bulk_id", "job_id")
    bulk = models.ForeignKey(Bulk, models.CASCADE, db_index=False, related_name="items")
    job_id = models.BigIntegerField()
    was = models.JSONField(help_text="Its value before, or the id of the new job.")


class HealthScore(models.Model):
    """How one queue, worker or webhook source did on one day (UTC)."""

    day = models.DateField()
    subject = models.CharField(max_length=20, help_text="What it is about: a queue, a worker, a source.")
    name = models.CharField(max_length=255)
    ended = models.PositiveBigIntegerField(help_text="Jobs or deliveries that ended on that day.")
    succeeded = models.PositiveBigIntegerField()
    score = models.FloatField(null=True, help_text="The share that succeeded, 0 to 1; empty if nothing ended.")
    latency_p50_s = models.FloatField(null=True, help_text="Of a queue the wait, of a worker the run.")
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
