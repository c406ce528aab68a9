"""The inbox's tables: what came, byte for byte; how it was processed; what was refused; and the secrets.

Foreign keys carry no database constraint: checking one reads an index inside the serializable transaction that
processes a delivery, and that alone makes neighbours collide (docs/adr/0010).
"""

from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from postgres.schema import loose
from webhooks.domain.names import Source, has_unsigned_id
from webhooks.domain.states import Outcome, Status


class Secret(models.Model):
    """What a source signs with. Several may live at once, so that a sender can be moved from one to the next."""

    source = models.CharField(max_length=20, choices=[(s, s.label) for s in Source])
    name = models.CharField(max_length=100, default="", blank=True, help_text="For people: where it is used.")
    sealed = models.BinaryField(help_text="Encrypted under a key derived from SECRET_KEY.")
    fingerprint = models.CharField(max_length=12, help_text="Identifies the secret without revealing it.")
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    retired_at = models.DateTimeField(
        null=True, blank=True, help_text="From this moment on it is not accepted. May lie ahead."
    )
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["source", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["source", "fingerprint"],
                condition=Q(retired_at__isnull=True),
                name="a_source_has_each_live_secret_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.source} {self.fingerprint}"


class SandboxToken(models.Model):
    """A bearer token of one sandbox, for agents whose hooks cannot sign. Stored hashed; shown once."""

    sandbox = models.CharField(max_length=100)
    token_hash = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"token of sandbox {self.sandbox}"


class Delivery(models.Model):
    """One request that was received, and where its processing stands. The body is kept as it came."""

    source = models.CharField(max_length=20, choices=[(s, s.label) for s in Source])
    delivery_id = models.CharField(
        max_length=255, help_text="The sender's own id; without one, sha256: and the body's digest."
    )
    event_type = models.CharField(max_length=255, default="", blank=True)
    status = models.CharField(max_length=9, choices=[(s, s) for s in Status], default=Status.RECEIVED)
    note = models.TextField(
        null=True, blank=True, help_text="Why it was ignored or rejected, or how the last attempt failed."
    )
    body = models.BinaryField()
    body_bytes = models.PositiveIntegerField()
    body_sha256 = models.BinaryField(max_length=32)
    headers = models.JSONField(default=dict, help_text="Without those that hold secrets.")
    search = SearchVectorField(null=True, editable=False, help_text="The words of the body.")
    address = models.GenericIPAddressField(null=True, blank=True)
    secret = loose(Secret, null=True, blank=True, related_name="deliveries")
    sandbox = models.CharField(
        max_length=100, null=True, blank=True, help_text="The sandbox whose bearer token it came with."
    )
    occurred_at = models.DateTimeField(null=True, blank=True, help_text="When it happened, by the sender's clock.")
    received_at = models.DateTimeField(db_default=Now())
    attempts = models.PositiveSmallIntegerField(default=0, help_text="Since it was received, or last replayed.")
    tries = models.PositiveIntegerField(default=0, help_text="Attempts in all, with those before replays.")
    next_attempt_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True, help_text="When its last attempt ended.")
    starts_jobs = models.BooleanField(
        db_default=True, help_text="Whether its next attempt that ends well starts the jobs of its rules."
    )
    start_round = models.PositiveIntegerField(
        db_default=1, help_text="1, and one more for each replay that starts its jobs again."
    )
    duplicates = models.PositiveIntegerField(default=0, help_text="How often the same delivery came again.")
    last_duplicate_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "deliveries"
        permissions = (
            ("operate_delivery", "Can replay deliveries, send test deliveries and change secrets of webhooks"),
        )
        constraints = [
            models.UniqueConstraint(fields=["source", "delivery_id"], name="a_delivery_is_stored_once"),
            # The ids of these adapters are not signed, so whoever saw a request could send it again under a new one.
            models.UniqueConstraint(
                fields=["source", "body_sha256"],
                condition=Q(source__in=[s for s in Source if has_unsigned_id(s)]),
                name="a_body_whose_id_is_not_signed_is_stored_once",
            ),
            models.CheckConstraint(name="delivery_status_is_known", condition=Q(status__in=sorted(Status))),
            models.CheckConstraint(
                name="a_failed_delivery_has_a_next_attempt_and_no_other_has",
                condition=Q(status=Status.FAILED, next_attempt_at__isnull=False)
                | (~Q(status=Status.FAILED) & Q(next_attempt_at__isnull=True)),
            ),
            models.CheckConstraint(
                name="a_delivery_that_went_wrong_says_why",
                condition=~Q(status__in=[Status.FAILED, Status.DEAD, Status.REJECTED]) | Q(note__isnull=False),
            ),
            models.CheckConstraint(
                name="a_delivery_has_ended_unless_it_is_received",
                condition=Q(status=Status.RECEIVED) | Q(ended_at__isnull=False),
            ),
        ]
        indexes = [
            models.Index("source", F("id").desc(), name="webhooks_by_source"),
            models.Index("source", "event_type", F("id").desc(), name="webhooks_by_type"),
            models.Index(
                "status", F("id").desc(), name="webhooks_unsettled",
                condition=Q(status__in=[Status.RECEIVED, Status.FAILED, Status.DEAD, Status.REJECTED]),
            ),
            # What filters of the inbox mean and else would be looked for among all that came.
            models.Index(F("id").desc(), name="webhooks_ignored", condition=Q(status=Status.IGNORED)),
            models.Index(
                "sandbox", F("id").desc(), name="webhooks_by_sandbox", condition=Q(sandbox__isnull=False)
            ),
            models.Index("received_at", "id", name="webhooks_by_time"),
            GinIndex("search", name="webhooks_by_word"),
        ]  # fmt: skip

    def __str__(self) -> str:
        return f"{self.source} {self.event_type or 'delivery'} #{self.pk}"


class DeliveryAttempt(models.Model):
    delivery = loose(Delivery, models.CASCADE, related_name="history")
    number = models.PositiveIntegerField()
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField()
    outcome = models.CharField(max_length=9, choices=[(o, o) for o in Outcome])
    error = models.TextField(null=True, blank=True)
    error_class = models.CharField(max_length=200, null=True, blank=True)
    traceback = models.TextField(null=True, blank=True)

    class Meta:
        ordering = ["delivery_id", "number"]
        constraints = [
            models.UniqueConstraint(fields=["delivery", "number"], name="attempts_of_a_delivery_are_numbered"),
            models.CheckConstraint(
                name="a_failed_attempt_says_why", condition=~Q(outcome=Outcome.FAILED) | Q(error__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of delivery #{self.delivery_id}"


class Refusal(models.Model):
    """How many requests of a source were refused for one reason in one hour, and the last of them. Nothing of a refused
    request is kept but this line, so a flood of them cannot fill the database."""

    source = models.CharField(max_length=20, choices=[(s, s.label) for s in Source])
    reason = models.CharField(max_length=40)
    hour = models.DateTimeField()
    count = models.PositiveBigIntegerField(default=0)
    last_at = models.DateTimeField()
    last_address = models.GenericIPAddressField(null=True, blank=True)
    last_bytes = models.PositiveBigIntegerField(null=True, blank=True)
    last_header_names = models.JSONField(default=list)

    class Meta:
        ordering = ["-hour", "source", "reason"]
        constraints = [
            models.UniqueConstraint(
                fields=["source", "reason", "hour"], name="refusals_are_counted_by_source_reason_and_hour"
            )
        ]

    def __str__(self) -> str:
        return f"{self.count} x {self.reason} from {self.source}"
