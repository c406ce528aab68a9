"""What happened, one line each, for people; and what of a day was summed up."""

from django.db import models
from django.db.models import F
from django.db.models.functions import Now

from postgres.schema import loose
from webhooks.domain.names import Source
from webhooks.models.inbox import Delivery
from webhooks.models.resources import short


class Activity(models.Model):
    """One line: who did what to what. It speaks of its event alone, so it is the same whatever else had come."""

    delivery = loose(Delivery, related_name="activity")
    n = models.PositiveSmallIntegerField(help_text="Which entry of its delivery, from 0.")
    source = models.CharField(max_length=20, choices=[(s, s.label) for s in Source])
    at = models.DateTimeField(help_text="When it happened, by the sender's clock.")
    actor = short(help_text="Who did it; empty: the sender itself.")
    verb = models.CharField(max_length=100)
    object = models.CharField(max_length=500)
    kind = models.CharField(
        max_length=40, default="", blank=True, help_text="The table of the resource; empty: not kept."
    )
    resource = short(help_text="The resource's external_id.")
    link = models.CharField(max_length=500, default="", blank=True, help_text="To the sender; https alone.")
    written_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "activity"
        ordering = ["-at", "-id"]
        constraints = [models.UniqueConstraint(fields=["delivery", "n"], name="a_delivery_emits_each_line_once")]
        indexes = [
            models.Index(F("at").desc(), F("id").desc(), name="activity_newest"),
            models.Index("source", F("at").desc(), F("id").desc(), name="activity_of_source"),
            models.Index("kind", "resource", F("at").desc(), name="activity_of_resource"),
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.verb} {self.object}".strip()


class ActivityDigest(models.Model):
    """What a day (UTC) came to, computed when somebody first asked; dropped daily, and when a late line comes."""

    day = models.DateField(primary_key=True)
    digest = models.JSONField()
    computed_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-day"]

    def __str__(self) -> str:
        return f"activity of {self.day}"
