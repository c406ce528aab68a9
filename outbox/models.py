"""The outbox's tables: who asked for what, what happened, and how far it has come on its way to each of them.

Foreign keys on the way of an event carry no database constraint, as on the way of a job (docs/adr/0007): the
transaction that ends a job writes it.
"""

from datetime import datetime

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from outbox.domain.addresses import LONGEST_URL
from outbox.domain.messages import FAILING, RETRIED, EndpointStatus, Outcome, Status, choices, scheme_of
from postgres.schema import loose


class Endpoint(models.Model):
    """Where events go. One with an owner gets what its owner may see; one without, what the whole farm does."""

    name = models.CharField(max_length=100, help_text="For people: who takes the events.")
    url = models.CharField("URL", max_length=LONGEST_URL)
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, blank=True, related_name="endpoints",
        help_text="Empty: events of the whole farm. Otherwise: of the owner's jobs and those of the owner's groups.",
    )  # fmt: skip
    events = ArrayField(
        models.CharField(max_length=100, choices=choices),
        help_text="Types of events; job.* is all of a family, * is all.",
    )
    kinds = ArrayField(
        models.CharField(max_length=100), default=list, blank=True,
        help_text="Only of jobs of these kinds; empty: of all, and of what is no job.",
    )  # fmt: skip
    with_result = models.BooleanField(default=False, help_text="Send a job's result along, up to OUTBOX_RESULT_BYTES.")
    per_minute = models.FloatField(
        null=True, blank=True, help_text="Messages a minute at most; empty: as many as it takes."
    )
    is_callback = models.BooleanField(
        default=False, editable=False, help_text="It gets the jobs that were submitted with its address alone."
    )
    status = models.CharField(max_length=8, choices=[(s, s) for s in EndpointStatus], default=EndpointStatus.ACTIVE)
    note = models.TextField(default="", blank=True, help_text="Why it is paused or disabled.")
    held_until = models.DateTimeField(null=True, editable=False, help_text="As its Retry-After asked.")
    failing_since = models.DateTimeField(null=True, editable=False)
    last_failure = models.TextField(
        default="", db_default="", editable=False, help_text="What the last attempt came to, while it fails."
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    waiting: int  # these as `queries.counted` counts
    dead: int
    last_delivered_at: datetime | None

    class Meta:
        ordering = ["name", "id"]
        permissions = [("operate_endpoint", "Can make and change endpoints of the whole farm, and replay messages")]
        constraints = [
            models.UniqueConstraint(
                fields=["owner", "url"], condition=Q(is_callback=True), nulls_distinct=False,
                name="a_callback_address_of_an_owner_is_one_endpoint",
            ),
            models.CheckConstraint(
                name="endpoint_takes_a_positive_number_a_minute",
                condition=Q(per_minute__isnull=True) | Q(per_minute__gt=0, per_minute__lte=1e9),
                violation_error_message="A number above 0.",
            ),
        ]  # fmt: skip

    def __str__(self) -> str:
        return self.name

    @property
    def is_signed(self) -> bool:
        """Whether its receiver verifies messages, and needs its secret for that: what an app here takes is not."""
        return scheme_of(self.url) is None

    @property
    def shown_status(self) -> str:
        """Its status for people: an active one of which no attempt succeeds is FAILING."""
        is_failing = self.status == EndpointStatus.ACTIVE and self.failing_since is not None
        return FAILING if is_failing else self.status


class EndpointSecret(models.Model):
    """What messages to an endpoint are signed with. Two may live at once, and then both sign."""

    endpoint = models.ForeignKey(Endpoint, models.CASCADE, related_name="secrets")
    sealed = models.BinaryField(help_text="Encrypted under a key derived from SECRET_KEY.")
    fingerprint = models.CharField(max_length=12, help_text="Identifies the secret without revealing it.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    retired_at = models.DateTimeField(
        null=True, blank=True, help_text="From this moment on it signs no more. May lie ahead."
    )

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.fingerprint


class Event(models.Model):
    """Something that happened and that somebody asked for. Its bodies are the bytes that are sent, at every attempt."""

    uid = models.UUIDField(unique=True, help_text="webhook-id, the same at every attempt.")
    type = models.CharField(max_length=100)
    subject = models.CharField(max_length=200, help_text="What it is about: job/7.")
    occurred_at = models.DateTimeField()
    body = models.TextField()
    body_with_result = models.TextField(null=True, help_text="For endpoints that ask for results.")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["created_at"], name="outbox_event_old")]

    def __str__(self) -> str:
        return f"{self.type} of {self.subject}"


class Message(models.Model):
    """One event on its way to one endpoint. While a sender has it, `lease` is set and `next_attempt_at` lies ahead:
    what a sender that was killed had becomes due again by itself."""

    event = loose(Event, related_name="messages")
    endpoint = loose(Endpoint, related_name="messages")
    subject = models.CharField(max_length=200)
    status = models.CharField(max_length=9, choices=[(s, s) for s in Status], default=Status.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0, help_text="Since it was made, or last replayed.")
    tries = models.PositiveIntegerField(default=0, help_text="Attempts in all, with those before replays.")
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    lease = models.UUIDField(null=True, editable=False)
    note = models.TextField(default="", blank=True, help_text="How the last attempt failed.")
    created_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            # Both conditions: who asks for one of them alone reads another index, also by statistics of an empty hour.
            models.Index(
                fields=["endpoint", "next_attempt_at"],
                name="outbox_message_awaited",
                condition=Q(status="pending", next_attempt_at__isnull=False),
            ),
            models.Index(
                fields=["endpoint", "subject", "id"], name="outbox_message_in_order", condition=Q(status="pending")
            ),
            models.Index(fields=["endpoint", "-id"], name="outbox_message_of_endpoint"),
            models.Index(fields=["ended_at"], name="outbox_message_ended"),
            models.Index(fields=["endpoint", "-id"], name="outbox_message_dead", condition=Q(status="dead")),
            models.Index(fields=["event"], name="outbox_message_of_event"),
            models.Index(fields=["endpoint"], name="outbox_message_leased", condition=Q(lease__isnull=False)),
        ]
        constraints = [
            models.CheckConstraint(
                name="a_message_that_waits_has_a_next_attempt",
                condition=Q(status="pending", next_attempt_at__isnull=False, ended_at__isnull=True)
                | (~Q(status="pending") & Q(next_attempt_at__isnull=True, lease__isnull=True, ended_at__isnull=False)),
            )
        ]

    def __str__(self) -> str:
        return f"message {self.pk}"

    @property
    def shown_status(self) -> str:
        return RETRIED if self.status == Status.PENDING and self.attempts else self.status


class Attempt(models.Model):
    message = models.ForeignKey(Message, models.CASCADE, related_name="history", db_constraint=False)
    number = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    duration_ms = models.PositiveIntegerField()
    outcome = models.CharField(max_length=9, choices=[(o, o) for o in Outcome])
    http_status = models.PositiveSmallIntegerField("HTTP status", null=True)
    error = models.TextField(default="", help_text="Why there was no answer.")
    answer = models.TextField(default="", help_text="The first 4 kB of it.")

    class Meta:
        ordering = ["number"]

    def __str__(self) -> str:
        return f"attempt {self.number}"


class Callback(models.Model):
    """A job whose submitter named an address for its events."""

    job_id = models.BigIntegerField()
    endpoint = loose(Endpoint, related_name="callbacks")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["job_id", "endpoint"], name="a_job_calls_an_endpoint_back_once")]
        indexes = [models.Index(fields=["created_at"], name="outbox_callback_old")]

    def __str__(self) -> str:
        return f"callback of job {self.job_id}"
