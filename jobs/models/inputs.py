"""Input files (docs/adr/0029): what people uploaded for jobs, and which job has which upload under which name."""

import uuid
from operator import attrgetter

from django.conf import settings
from django.db import models
from django.db.models.functions import Now

from jobs.models.work import Job

PARTS = "jobs/parts"  # the folder of what was cut out of payloads (docs/adr/0135)


class Upload(models.Model):
    """A file in Django's storage that jobs may have as an input; any number of them, under names of their own."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.SET_NULL, null=True, blank=True, db_constraint=False, related_name="+"
    )
    name = models.CharField(max_length=100)
    stored_as = models.CharField(max_length=255, editable=False)
    size = models.BigIntegerField()
    sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField(db_default=Now())
    kept_until = models.DateTimeField(
        null=True, blank=True, editable=False, help_text="Until then it stays for what it was uploaded for."
    )

    class Meta:
        indexes = [models.Index("created_at", name="jobs_uploads_by_age")]
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "sha256"],
                name="a_part_is_stored_once",
                condition=models.Q(stored_as__startswith=f"{PARTS}/"),
            )
        ]

    def __str__(self) -> str:
        return self.name


class Input(models.Model):
    """One job's use of an upload. It is written with the job, and goes with it or with the upload."""

    job = models.ForeignKey(Job, models.CASCADE, db_constraint=False, db_index=False, related_name="input_files")
    name = models.CharField(max_length=100)
    upload = models.ForeignKey(Upload, models.CASCADE, db_constraint=False, related_name="uses")

    filename, size, sha256 = (property(attrgetter(f"upload.{name}")) for name in ("name", "size", "sha256"))
    place = ""
    """Where it belongs in the payload that it is a part of, for people to read: "messages.0.content"."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "name"], name="an_input_name_is_used_once")]

    def __str__(self) -> str:
        return self.name
