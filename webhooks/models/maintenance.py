"""What the crons keep: the catalog of models, and what reconciliation found."""

from django.db import models
from django.db.models.functions import Now


class ModelServer(models.Model):
    """An OpenAI-compatible server of settings.LLM_SERVERS, and how asking it for its models went."""

    url = models.CharField(max_length=500, primary_key=True)
    polled_at = models.DateTimeField(null=True)
    answered_at = models.DateTimeField(null=True, help_text="When it last answered without an error.")
    error = models.TextField(null=True, help_text="Why the last request failed; empty if it succeeded.")

    class Meta:
        ordering = ["url"]

    def __str__(self) -> str:
        return self.url


class CatalogModel(models.Model):
    """A language model that a server offers, or did until `gone_at`."""

    server = models.ForeignKey(ModelServer, models.CASCADE, related_name="models")
    name = models.CharField(max_length=255)
    owned_by = models.CharField(max_length=255, default="")
    made_at = models.DateTimeField(null=True, help_text="As the server says.")
    first_seen_at = models.DateTimeField(db_default=Now())
    last_seen_at = models.DateTimeField(db_default=Now())
    gone_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["server", "name"]
        constraints = [models.UniqueConstraint(fields=["server", "name"], name="a_server_offers_a_model_once")]

    def __str__(self) -> str:
        return f"{self.name} at {self.server_id}"


class Reconciliation(models.Model):
    """One round of looking for what fell through: what was found and what of it was mended."""

    ran_at = models.DateTimeField(db_default=Now())
    deliveries_without_run = models.PositiveIntegerField(help_text="Scheduled again.")
    jobs_without_end = models.PositiveIntegerField(help_text="Past their lease or their time; ended.")
    files_without_job = models.PositiveIntegerField(help_text="Deleted.")
    details = models.JSONField(default=dict, help_text="The first hundred of each.")

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"reconciliation #{self.pk}"
