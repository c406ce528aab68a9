"""Files and batches of OpenAI's API. The bytes of a file are an upload of `jobs` under the same id; a batch's jobs are
jobs like others, and its slices say which (docs/adr/0084)."""

import uuid
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Q, Value
from django.db.models.functions import Now
from django.urls import reverse

from openai_api.domain import ADDRESS, LONGEST_MODEL
from openai_api.domain.batches import LIVE, BatchStatus


class File(models.Model):
    """A file that somebody uploaded, or that a batch wrote."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    name = models.CharField(max_length=255, help_text="As its uploader calls it.")
    purpose = models.CharField(max_length=50)
    size = models.BigIntegerField()
    sha256 = models.CharField(max_length=64, editable=False)
    stored_as = models.CharField(max_length=255, editable=False)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()

    class Meta:
        ordering = ["-created_at", "id"]
        indexes = [
            models.Index("owner", F("created_at").desc(), "id", name="openai_files_of_owner"),
            models.Index("expires_at", name="openai_files_by_expiry"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def public_id(self) -> str:
        return f"file-{self.id.hex}"


def _file() -> "models.ForeignKey[File | None, File | None]":
    return models.ForeignKey(File, models.SET_NULL, null=True, blank=True, related_name="+")


class Batch(models.Model):
    """Calls of a file, each a job. What moves it is `operations.steps`, under the lock of this row."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, related_name="+", db_index=False
    )
    # Its jobs are submitted with this API token, so the token's budgets bound them (docs/usage.md).
    token = models.ForeignKey(
        "accounts.ApiToken", models.DO_NOTHING, null=True, blank=True, related_name="+", db_constraint=False,
        db_index=False, editable=False,
    )  # fmt: skip
    endpoint = models.CharField(max_length=50)
    status = models.CharField(
        max_length=11, choices=[(s, s.replace("_", " ")) for s in BatchStatus], default=BatchStatus.VALIDATING
    )
    ends_as = models.CharField(
        max_length=11, choices=[(s, s) for s in BatchStatus], default=BatchStatus.COMPLETED, editable=False,
        help_text="Its status once its files are written.",
    )  # fmt: skip
    completion_window = models.CharField(max_length=10)
    metadata = models.JSONField(default=dict, blank=True)
    errors = models.JSONField(default=list, blank=True, help_text="Why its input file was refused.")
    note = models.CharField(max_length=300, default="", blank=True, help_text="What it waits for.")
    input_file, output_file, error_file = _file(), _file(), _file()
    total = models.IntegerField(default=0, help_text="Lines of its input file.")
    submitted = models.IntegerField(default=0, help_text="Lines that are jobs.")
    completed = models.IntegerField(default=0)
    failed = models.IntegerField(default=0)
    read_to = models.BigIntegerField(default=0, editable=False, help_text="Byte of the input after those lines.")
    chain = models.IntegerField(default=0, editable=False, help_text="A step of another chain does nothing.")
    next_step_at = models.DateTimeField(editable=False, help_text="Long past it, the chain is broken.")
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField()
    in_progress_at = models.DateTimeField(null=True, blank=True)
    finalizing_at = models.DateTimeField(null=True, blank=True)
    cancelling_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "id"]
        verbose_name_plural = "batches"
        constraints = [
            models.CheckConstraint(
                name="batch_has_an_end_exactly_when_it_ended",
                condition=Q(status__in=sorted(LIVE), ended_at__isnull=True)
                | ~Q(status__in=sorted(LIVE)) & Q(ended_at__isnull=False),
            )
        ]
        indexes = [
            models.Index("owner", F("created_at").desc(), "id", name="openai_batches_of_owner"),
            models.Index("next_step_at", name="openai_batches_live", condition=Q(status__in=sorted(LIVE))),
        ]

    def __str__(self) -> str:
        return self.public_id

    def get_absolute_url(self) -> str:
        return reverse("openai_api:batch", args=[self.pk])

    @property
    def public_id(self) -> str:
        return f"batch_{self.id.hex}"

    @property
    def reported(self) -> dict[str, Any]:
        """What answers and events say of it alike."""
        files = {"input": self.input_file, "output": self.output_file, "error": self.error_file}
        return {
            "id": self.public_id, "status": str(self.status), "endpoint": f"{ADDRESS}{self.endpoint}",
            "request_counts": {"total": self.total, "completed": self.completed, "failed": self.failed},
            **{f"{which}_file_id": None if file is None else file.public_id for which, file in files.items()},
        }  # fmt: skip

    @property
    def is_live(self) -> bool:
        return self.status in LIVE

    @property
    def outstanding(self) -> int:
        """How many of its jobs had not ended when they were counted last."""
        return self.submitted - self.completed - self.failed


class Slice(models.Model):
    """Lines of a batch that became jobs in one transaction, in their order; `read_from` is their first byte."""

    batch = models.ForeignKey(Batch, models.CASCADE, related_name="slices", db_index=False)
    read_from = models.BigIntegerField()
    job_ids = ArrayField(models.BigIntegerField())
    custom_ids = ArrayField(models.TextField())
    # Of lines that hooks refused, which are no jobs (0 in job_ids): their errors, by their names.
    refused = models.JSONField(default=dict, db_default=Value({}, models.JSONField()))
    completed = models.IntegerField(default=0)
    failed = models.IntegerField(default=0)

    class Meta:
        ordering = ["batch", "read_from"]
        constraints = [
            models.UniqueConstraint(fields=["batch", "read_from"], name="a_line_of_a_batch_is_submitted_once")
        ]
        indexes = [GinIndex(fields=["job_ids"], name="openai_slices_by_job")]

    def __str__(self) -> str:
        return f"{len(self.job_ids)} lines"

    @property
    def is_open(self) -> bool:
        """Whether some of its jobs had not ended when they were counted last."""
        return self.completed + self.failed < len(self.job_ids)


def _name(**options: Any) -> Any:
    """What callers write as a model."""
    return models.CharField(max_length=LONGEST_MODEL, **options)


class Alias(models.Model):
    """A model that answers calls of another name: the first one, or one for calls that have waited for so long."""

    name = _name(help_text="As callers write it. Of rows with one name each is a model that may answer.")
    model = _name(help_text="As a worker announces it.")
    after_s = models.FloatField(
        "after", default=0, validators=[MinValueValidator(0)],
        help_text="Seconds that a call waits before it comes here; 0: at once.",
    )  # fmt: skip
    is_only_way = models.BooleanField(
        "by alias alone", default=False,
        help_text="The model is not listed, and cannot be called by its own name: of a provider who costs money.",
    )  # fmt: skip

    class Meta:
        ordering = ["name", "after_s"]
        verbose_name_plural = "aliases"
        constraints = [
            models.UniqueConstraint(
                fields=["name", "after_s"], name="one_model_of_an_alias_comes_at_a_time",
                violation_error_message="There is a model for this moment already.",
            )
        ]  # fmt: skip

    def __str__(self) -> str:
        return f"{self.name} is {self.model}" + (f" after {self.after_s:g} s" if self.after_s else "")


class CallRule(models.Model):
    """What calls an API token, or each token of a group's members, may make."""

    token = models.OneToOneField(
        "accounts.ApiToken", models.CASCADE, null=True, blank=True, related_name="+", verbose_name="API token"
    )
    group = models.OneToOneField(Group, models.CASCADE, null=True, blank=True, related_name="+")
    names = ArrayField(
        _name(), verbose_name="models", default=list, blank=True,
        help_text="Models and aliases that may be called, with commas between them; empty: all.",
    )  # fmt: skip
    requests_per_minute = models.PositiveIntegerField(null=True, blank=True, validators=[MinValueValidator(1)])
    tokens_per_minute = models.PositiveIntegerField(null=True, blank=True, validators=[MinValueValidator(1)])

    class Meta:
        ordering = ["id"]
        verbose_name = "rule of calls"
        verbose_name_plural = "rules of calls"
        constraints = [
            models.CheckConstraint(
                name="call_rule_has_one_subject", condition=Q(token__isnull=True) ^ Q(group__isnull=True),
                violation_error_message="Of an API token or of a group: one of them.",
            )
        ]  # fmt: skip

    def __str__(self) -> str:
        return f"the group {self.group.name}" if self.group is not None else f"the API token {self.token}"


class Fallback(models.Model):
    """A call that goes to the next model of its alias, unless a worker has it by then. `steps` are the models that are
    left, each with the seconds that the call waits before."""

    job_id = models.BigIntegerField(primary_key=True)
    steps = models.JSONField()
    due_at = models.DateTimeField(db_index=True)


class KnownBeginning(models.Model):
    """The job that came last with such a beginning, of one person: the key is a hash of both. It serves for an hour."""

    key = models.UUIDField(primary_key=True, editable=False)
    job_id = models.BigIntegerField()
    expires_at = models.DateTimeField(db_index=True)


class LeftCall(models.Model):
    """A call whose caller went away a moment ago and may repeat it: who does takes over its job, and this row."""

    job_id = models.BigIntegerField(primary_key=True)
    owner_id = models.IntegerField()
    fingerprint = models.CharField(max_length=64)
    left_at = models.DateTimeField(db_default=Now())


class CachedCall(models.Model):
    """A job whose answer answers the same call of the same person, of which the key is made."""

    key = models.CharField(primary_key=True, max_length=64)
    job_id = models.BigIntegerField(db_index=True)
    hits = models.IntegerField(default=0)
    expires_at = models.DateTimeField(db_index=True)


class HookDecision(models.Model):
    """What the hooks of the site did to a call: `notes` for people; and of its answer, once they have `decided` about
    it, the status and the body that are handed out instead, if any."""

    job_id = models.BigIntegerField(primary_key=True)
    notes = ArrayField(models.TextField(), default=list)
    is_decided = models.BooleanField(default=False)
    status = models.SmallIntegerField(null=True)
    answer = models.JSONField(null=True)
    written_at = models.DateTimeField(db_default=Now(), db_index=True)
