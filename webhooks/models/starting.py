"""Rules that people keep, and the jobs that deliveries started.

As in `models.inbox`, what the transaction that processes a delivery writes carries no database constraint on other
tables.
"""

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from postgres.schema import loose
from webhooks.domain.names import Source
from webhooks.domain.rules import WHOLE_BODY
from webhooks.domain.states import StartOutcome


def _whole_body() -> str:
    return WHOLE_BODY


class Rule(models.Model):
    """Which deliveries start a job, and which job that is."""

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
    flow_template = models.CharField(
        max_length=100,
        blank=True,
        default="",
        db_default="",
        help_text="The name of a flow template that is started instead: the payload is the values of its placeholders.",
    )
    signal = models.CharField(
        max_length=100,
        blank=True,
        default="",
        db_default="",
        help_text="The name of a signal that is sent instead to who waits for it: the payload is its data.",
    )
    signal_key = models.CharField(
        max_length=200,
        blank=True,
        default="",
        db_default="",
        help_text="By which it finds them, as their wait_for says it: {{ body.pull_request.url }}.",
    )
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
