"""Kinds that people make."""

from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q

from core.backoff import LONGEST_S
from jobs.domain import kinds
from ratelimits.domain import LARGEST

valid_name = RegexValidator(r"\A" + kinds.NAME.pattern + r"\Z", "Use a-z 0-9 _ . - and at most 100 of them.")


class Kind(models.Model):
    """A kind made by a person; kinds declared in code live in their apps' `kinds.py` and win over rows."""

    name = models.CharField(max_length=100, primary_key=True, validators=[valid_name])
    queue = models.CharField(max_length=100, validators=[valid_name], help_text="The queue of its jobs.")
    max_attempts = models.PositiveSmallIntegerField(default=3, validators=[MinValueValidator(1)])
    backoff_first_s = models.FloatField("first backoff", default=1, help_text="Seconds before the second attempt.")
    backoff_base = models.FloatField(default=2, help_text="Each further backoff is this many times longer.")
    backoff_cap_s = models.FloatField("longest backoff", default=3600, help_text="Seconds.")
    timeout_s = models.FloatField("timeout", null=True, blank=True, help_text="Longest run, in seconds.")
    expires_s = models.FloatField("expires", null=True, blank=True, help_text="Longest time as pending, in seconds.")
    retry_when_lost = models.BooleanField(
        default=True, db_default=True, help_text="Retry on another worker when the lease of an attempt ran out."
    )
    retry_on_timeout = models.BooleanField(default=False, help_text="Retry when a run took longer than its timeout.")
    priority = models.SmallIntegerField(default=0, validators=[MinValueValidator(-100), MaxValueValidator(100)])
    requires = models.JSONField(
        default=dict, db_default={}, blank=True,
        help_text='What its jobs require of a worker\'s labels, such as {"vram": ">=16"}.',
    )  # fmt: skip
    limit = models.CharField(
        max_length=100, null=True, blank=True, help_text="The rate limit that each of its jobs takes from."
    )
    limit_count = models.FloatField(default=1, help_text="How many tokens of it a job takes.")
    limit_key = models.CharField(
        "limit per", max_length=10, default="", blank=True, choices=[("", "everybody"), ("owner", "owner")],
        help_text="Whose tokens a job takes: everybody shares them, or each owner has as many.",
    )  # fmt: skip
    concurrency = models.PositiveSmallIntegerField(
        null=True, blank=True, validators=[MinValueValidator(1)],
        help_text="How many of its jobs run at a time, of each concurrency key; empty: any number.",
    )  # fmt: skip
    concurrency_key = models.CharField(
        max_length=200, default="", db_default="", blank=True,
        help_text='What of the payload tells its jobs apart, such as "{account}" or "{model}-{region}".',
    )  # fmt: skip
    on_overflow = models.CharField(
        max_length=21, default="wait", db_default="wait",
        choices=[(one, one.replace("_", " ")) for one in kinds.OVERFLOWS],
        help_text="What happens to a new job whose key has as many jobs as may run.",
    )  # fmt: skip
    keep_content = models.BooleanField(
        default=True, db_default=True,
        help_text="Without it what its jobs were given and gave is deleted minutes after their end.",
    )  # fmt: skip
    redact = models.TextField(
        default="", db_default="", blank=True,
        help_text="Patterns of RE2, one a line: what matches them in the texts of its jobs is redacted then, and their "
        "files are deleted.",
    )  # fmt: skip

    class Meta:
        ordering = ["name"]
        constraints = [
            # What domain.kinds.Kind refuses too: a kind that cannot be read would keep its jobs from ending.
            models.CheckConstraint(
                name="kind_numbers_are_within_their_bounds",
                condition=Q(max_attempts__range=(1, 1000), priority__range=(-100, 100))
                & Q(backoff_first_s__range=(0, LONGEST_S), backoff_cap_s__range=(0, LONGEST_S))
                & Q(backoff_base__range=(1, 1000)),
                violation_error_message="Attempts go from 1 to 1000, priority from -100 to 100, "
                "a backoff's base from 1 to 1000, its waits from 0 to five years.",
            ),
            models.CheckConstraint(
                name="kind_times_are_positive_and_under_five_years",
                condition=(Q(timeout_s__isnull=True) | Q(timeout_s__gt=0, timeout_s__lt=LONGEST_S))
                & (Q(expires_s__isnull=True) | Q(expires_s__gt=0, expires_s__lt=LONGEST_S)),
                violation_error_message="Timeout and expiry are positive and under five years.",
            ),
            models.CheckConstraint(
                name="kind_takes_a_positive_number_of_its_limit",
                condition=Q(limit_count__gt=0, limit_count__lt=LARGEST, limit_key__in=["", "owner"]),
                violation_error_message="The number of tokens is positive and finite.",
            ),
        ]

    def __str__(self) -> str:
        return self.name
