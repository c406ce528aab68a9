"""The sandboxes: sessions of agents, and telemetry of their gateway."""

from django.db import models
from django.db.models import F

from webhooks.models.resources import short


class SandboxSession(models.Model):
    """One session of an agent. Each of its columns is kept newest for itself, as every event has another part."""

    class Phase(models.TextChoices):
        """What the agent did when it was last heard of."""

        STARTED = "started", "started"
        WORKING = "working", "working"
        ASKING = "asking", "asks for somebody"
        IDLE = "idle", "waits for a prompt"
        ENDED = "ended", "ended"

    external_id = models.CharField(max_length=255, help_text="The agent's own id of it.")
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    phase = models.CharField(max_length=7, choices=Phase.choices, default="", blank=True)
    phase_key = models.CharField(max_length=255, db_collation="C", default="", editable=False)
    reason = short(help_text="Why it ended.")
    model = short()
    model_key = models.CharField(max_length=255, db_collation="C", default="", editable=False)
    folder = short()
    folder_key = models.CharField(max_length=255, db_collation="C", default="", editable=False)
    sandbox = short()
    sandbox_key = models.CharField(max_length=255, db_collation="C", default="", editable=False)

    class Meta:
        ordering = ["-first_seen_at", "-id"]
        constraints = [models.UniqueConstraint(fields=["external_id"], name="one_row_for_each_sandbox_session")]
        # By its beginning, which stays: an index on last_seen_at would make every event write the index too.
        indexes = [models.Index(F("first_seen_at").desc(), F("id").desc(), name="sandboxsession_newest")]

    def __str__(self) -> str:
        return self.external_id


class SandboxTelemetry(models.Model):
    """One invocation of a sandbox's gateway. Kept for some days (`crons`)."""

    external_id = models.CharField(max_length=255, help_text="The delivery's id and the place in it.")
    at = models.DateTimeField()
    script = short()
    kind = short(help_text="The kind of event: fetch, scheduled, queue ...")
    subject = short(help_text="The address without its query, the cron, the queue.")
    status = models.IntegerField(null=True, blank=True, help_text="The HTTP status it answered with.")
    outcome = short(help_text="How it ended; not the HTTP status.")
    cpu_s = models.FloatField(null=True, blank=True)
    wall_s = models.FloatField(null=True, blank=True)
    logs = models.PositiveIntegerField(default=0)
    errors = models.PositiveIntegerField(default=0)
    error = models.TextField(default="", blank=True, help_text="The first exception.")

    class Meta:
        verbose_name = "sandbox telemetry"
        verbose_name_plural = "sandbox telemetry"
        ordering = ["-at", "-id"]
        constraints = [models.UniqueConstraint(fields=["external_id"], name="an_invocation_is_kept_once")]
        indexes = [models.Index(F("at").desc(), F("id").desc(), name="sandboxtelemetry_newest")]

    def __str__(self) -> str:
        return f"{self.script} {self.subject}".strip() or self.external_id
