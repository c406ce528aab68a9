"""What the jobs of each owner keep, for the quotas (docs/adr/0057); triggers and `operations.rollup` write it."""

from django.conf import settings
from django.db import models

ALL_JOBS = 0  # in the place of an owner: all jobs, those without an owner among them


class Usage(models.Model):
    """What the jobs of one owner keep, up to the last fold; `UsageDelta` has what changed since.

    The row of ALL_JOBS is the sum over all jobs. A row that is all zeros is deleted, that of a deleted person too.
    """

    owner = models.OneToOneField(
        settings.AUTH_USER_MODEL, models.DO_NOTHING, primary_key=True, db_constraint=False, related_name="+"
    )
    waiting = models.BigIntegerField("waiting jobs", default=0, db_default=0)
    output_bytes = models.BigIntegerField("bytes of output", default=0, db_default=0)
    files = models.BigIntegerField(default=0, db_default=0)
    file_bytes = models.BigIntegerField("bytes of files", default=0, db_default=0)
    waiting_at = models.DateTimeField(null=True, help_text="When waiting jobs were counted; on the farm's row.")
    recounted_at = models.DateTimeField(null=True, help_text="When all was counted anew; on the farm's row.")

    class Meta:
        verbose_name_plural = "usage"
        ordering = ["pk"]

    def __str__(self) -> str:
        return "all jobs" if self.pk == ALL_JOBS else f"the jobs of person {self.pk}"


class UsageDelta(models.Model):
    """A change of what the jobs of an owner keep, written in the transaction that changed it. Only ever inserted,
    so that nobody waits for anybody; added to `Usage` and deleted by the fold."""

    owner_id = models.IntegerField(null=True)
    output_bytes = models.BigIntegerField(db_default=0)
    files = models.BigIntegerField(db_default=0)
    file_bytes = models.BigIntegerField(db_default=0)

    class Meta:
        indexes = [models.Index("owner_id", name="jobs_usage_deltas_of")]

    def __str__(self) -> str:
        return f"change of the usage of {self.owner_id}"
