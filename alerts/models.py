"""Rules, what fires of each, and the messages that were sent. Durations in seconds."""

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.urls import reverse

from alerts.domain.judging import State
from alerts.domain.rules import LONGEST_NAME, LONGEST_TARGET, Severity


class Rule(models.Model):
    """What a person wants a message about. Its rules are those of `alerts.domain.rules`."""

    name = models.CharField(max_length=LONGEST_NAME, unique=True)
    condition = models.CharField(max_length=50, editable=False)
    target = models.CharField(max_length=LONGEST_TARGET, default="", blank=True)
    threshold = models.FloatField(default=0)
    window_s = models.PositiveIntegerField("window", default=900)
    hold_s = models.PositiveIntegerField("for", default=0)
    keep_firing_s = models.PositiveIntegerField("keep firing for", default=300)
    repeat_s = models.PositiveIntegerField("repeat every", default=4 * 3600)
    severity = models.CharField(max_length=8, choices=[(s, s.value) for s in Severity], default=Severity.WARNING)
    mail_to = models.TextField("mail to", default="", blank=True)
    # A Slack webhook's address is a secret: sealed, and shown by its host alone.
    sealed_url = models.BinaryField(null=True, editable=False)
    webhook_host = models.CharField("webhook", max_length=255, default="", editable=False)
    is_enabled = models.BooleanField("enabled", default=True)
    muted_until = models.DateTimeField(null=True, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    # What judging keeps of it (alerts.domain.judging.Memory).
    observed_at = models.DateTimeField(null=True, editable=False)
    notified_at = models.DateTimeField(null=True, editable=False)
    unknown = models.CharField(
        max_length=200, default="", editable=False, help_text="Why nothing is known of its condition now."
    )

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("alerts:rule", args=[self.pk])


class Alert(models.Model):
    """One subject of one rule for which its condition holds, or held. Written by judging alone."""

    rule = models.ForeignKey(Rule, models.CASCADE, related_name="alerts")
    subject = models.CharField(max_length=500, blank=True)
    state = models.CharField(max_length=8, choices=[(s, s.value) for s in State])
    value = models.FloatField()
    since = models.DateTimeField()
    known_at = models.DateTimeField()
    below_since = models.DateTimeField(null=True)
    is_notified = models.BooleanField("notified", default=False)

    class Meta:
        ordering = ["rule", "-value", "subject"]
        constraints = [models.UniqueConstraint(name="a_rule_has_one_alert_per_subject", fields=["rule", "subject"])]

    def __str__(self) -> str:
        return f"{self.rule}: {self.subject}" if self.subject else str(self.rule)


class Channel(models.TextChoices):
    MAIL = "mail"
    WEBHOOK = "webhook"


class NotificationStatus(models.TextChoices):
    PENDING = "pending"
    SENT = "sent"
    FAILED = "failed"


class Notification(models.Model):
    """One message to one recipient. Written with the judgement that it is of; sent by an action."""

    rule = models.ForeignKey(Rule, models.SET_NULL, null=True, related_name="notifications")
    channel = models.CharField(max_length=10, choices=Channel.choices)
    recipient = models.CharField(max_length=300)
    title = models.CharField(max_length=200)
    body = models.TextField()
    status = models.CharField(max_length=8, choices=NotificationStatus.choices, default=NotificationStatus.PENDING)
    tries = models.PositiveSmallIntegerField(default=0)
    error = models.CharField(max_length=300, default="", blank=True)
    created_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                name="notification_has_an_end_exactly_when_it_was_sent_or_failed",
                condition=Q(status=NotificationStatus.PENDING, ended_at__isnull=True)
                | Q(~Q(status=NotificationStatus.PENDING), ended_at__isnull=False),
            )
        ]
        indexes = [models.Index("created_at", name="alerts_notifications_by_age")]

    def __str__(self) -> str:
        return f"{self.title} to {self.recipient}"
