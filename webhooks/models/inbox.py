"""The inbox's tables: what came, byte for byte; how it was processed; what was refused; the secrets; and
which jobs it starts.

Foreign keys carry no database constraint: checking one reads an index inside the serializable transaction that
processes a delivery, and that alone makes neighbours collide (docs/adr/0010).
"""

from django.conf import settings
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from postgres.schema import loose
from webhooks.domain.deliveries import Outcome, Source, StartOutcome, Status, has_unsigned_id
from webhooks.domain.rules import WHOLE_BODY


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


def _whole_body() -> str:
    return WHOLE_BODY


def _text(most: int, help_text: str) -> "models.CharField[str, str]":
    """A column of text that may be empty, and is in rows of processes that do not know it."""
    return models.CharField(max_length=most, blank=True, default="", db_default="", help_text=help_text)


class Rule(models.Model):
    name = models.CharField(max_length=100, unique=True, help_text="For people; shown with each job.")
    is_enabled = models.BooleanField("enabled", default=True)
    source = models.CharField(max_length=20, choices=[(s, s.label) for s in Source])
    event = models.CharField(max_length=255, help_text="A type (issues.opened), a family (issues.*), or * for all.")
    filter = models.JSONField(
        default=dict,
        blank=True,
        help_text='Required values, by path: {"body.ref": "refs/heads/main"}. A list means one of these; '
        '{"exists": true}, {"prefix": "refs/tags/"} and {"not": "x"} what they say. Empty: every delivery.',
    )
    kind = models.CharField(
        max_length=100,
        blank=True,
        help_text="The kind of the job. Empty where it starts a flow template or sends a signal.",
    )
    flow_template = _text(
        100, "The name of a flow template that is started instead: the payload is the values of its placeholders."
    )
    signal = _text(100, "The name of a signal that is sent instead to who waits for it: the payload is its data.")
    signal_key = _text(200, "By which it finds them, as their wait_for says it: {{ body.pull_request.url }}.")
    payload = models.JSONField(
        default=_whole_body,
        help_text="JSON in which {{ body.repository.full_name }} stands for the value that the delivery has there, and "
        "{{ body.base? }} for null where it has nothing. Nothing in it is run.",
    )
    queue = models.CharField(max_length=100, null=True, blank=True, help_text="Empty: that of the kind.")
    priority = models.SmallIntegerField(
        null=True, blank=True, help_text="-100 to 100; higher goes first. Empty: that of the kind."
    )
    unique_key = models.CharField(
        max_length=200,
        null=True,
        blank=True,
        help_text="While a job with the same key has not ended no second one is started, unless its conflict says "
        "otherwise: deploy {{ body.repository.id }}.",
    )
    on_conflict = models.CharField(
        "while another has the key",
        max_length=7,
        null=True,
        blank=True,
        choices=[
            ("replace", "replace it, if nobody has begun it"),
            ("after", "replace what waits; run after what was begun"),
        ],
        help_text="Empty: no job is started.",
    )
    debounce = models.JSONField(
        null=True,
        blank=True,
        help_text='{"quiet": 10, "at_most": 120}: run it once no further one came for 10 s, at the latest 120 s after '
        "the first; after what was begun.",
    )
    tags = models.CharField(
        max_length=700,
        blank=True,
        default="",
        db_default="",
        help_text="By which the job is found, with commas between them: github, repo:{{ body.repository.full_name }}.",
    )
    owner = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        null=True,
        blank=True,
        related_name="+",
        help_text="Whose jobs they are, with the rights and quotas of that person. Empty: the farm's own.",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    @property
    def key(self) -> str:
        """What distinguishes this rule from all others, also those that are declared in code."""
        return f"rule:{self.pk}"


class JobStart(models.Model):
    """That a delivery met a rule, and the job that this started, or why it started none; or that it sent a signal. Once
    for each replay that was asked to start jobs again: `round` counts them."""

    delivery = loose("webhooks.Delivery", models.CASCADE, related_name="starts")
    rule = loose(Rule, null=True, related_name="starts")
    rule_key = models.CharField(max_length=400)
    rule_name = models.CharField(max_length=400)
    kind = models.CharField(max_length=100)
    round = models.PositiveIntegerField(default=1)
    outcome = models.CharField(max_length=7, choices=[(o, o) for o in StartOutcome])
    job = loose("jobs.Job", null=True, related_name="+")
    error = models.TextField(null=True, blank=True)
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["delivery", "rule_key", "round"], name="a_rule_starts_one_job_for_a_delivery_and_round"
            ),
            models.CheckConstraint(
                name="a_start_has_a_job_or_says_why_not",
                condition=Q(outcome=StartOutcome.FAILED, job__isnull=True, error__isnull=False)
                | Q(outcome__in=[StartOutcome.STARTED, StartOutcome.SKIPPED], job__isnull=False)
                | Q(outcome=StartOutcome.SENT, job__isnull=True),
            ),
        ]
        indexes = [
            models.Index("job", name="webhooks_starts_by_job"),
            models.Index(F("id").desc(), name="webhooks_starts_failed", condition=Q(outcome=StartOutcome.FAILED)),
        ]

    def __str__(self) -> str:
        return f"{self.outcome} by {self.rule_name} for delivery #{self.delivery_id}"
