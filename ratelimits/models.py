"""The one table: two numbers for each name, key and shard, and beside them what is needed to show and to
forget them."""

from django.db import models
from django.db.models.functions import Now

NAME_LIMIT = 100
KEY_LIMIT = 300


class Limit(models.Model):
    """A named limit that a person made; code that declares one of the same name wins. Its rules are those of
    `ratelimits.domain`."""

    name = models.CharField(
        max_length=NAME_LIMIT, primary_key=True, db_collation="C",
        help_text="Letters, digits, spaces inside and _ . : / -",
    )  # fmt: skip
    is_window = models.BooleanField(
        "fixed window", default=False, help_text="All tokens come in at once when a period ends; otherwise evenly."
    )
    rate = models.FloatField(help_text="Tokens that come in every period.")
    period_s = models.FloatField("period", default=60, help_text="Seconds.")
    capacity = models.FloatField(
        null=True, blank=True, help_text="The most tokens it ever holds. Empty: as many as the rate."
    )
    max_reserved = models.FloatField(
        "most reserved", null=True, blank=True,
        help_text="How many tokens jobs that wait may take ahead of time. Empty: any number.",
    )  # fmt: skip
    created_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        verbose_name = "named limit"
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Bucket(models.Model):
    """The state of one shard of one limit for one key. A key that has no row is full.

    `value` and `ts` are the state. The configuration is that of the last use, one shard's share of it:
    nothing is decided by it; gauges are drawn from it, and it says when a row may be forgotten. `value`, `ts`
    and `used` have no index, so that a decision is a HOT update.
    """

    name = models.CharField(max_length=NAME_LIMIT, db_collation="C", editable=False)
    key = models.CharField(
        max_length=KEY_LIMIT, db_collation="C", editable=False, help_text="Empty: one state is shared by all."
    )
    shard = models.SmallIntegerField(editable=False)
    shards = models.SmallIntegerField(editable=False)
    is_window = models.BooleanField("fixed window", editable=False)
    rate = models.FloatField(editable=False, help_text="Tokens added per period.")
    period_ms = models.FloatField("period", editable=False, help_text="Milliseconds.")
    most = models.FloatField("capacity", editable=False, help_text="The most tokens it can hold.")
    value = models.FloatField(editable=False, help_text="Tokens at the moment `ts`; below 0: reserved ahead of time.")
    ts = models.BigIntegerField(editable=False, help_text="Milliseconds since the Unix epoch.")
    used = models.FloatField(editable=False, help_text="Tokens taken since the row was created.")

    class Meta:
        verbose_name = "limit"
        ordering = ["name", "key", "shard"]
        # No CHECK: PostgreSQL builds them anew for every statement, and they took a sixth of a decision.
        constraints = [
            models.UniqueConstraint(fields=["name", "key", "shard"], name="one_state_per_name_key_and_shard")
        ]

    def __str__(self) -> str:
        return f"{self.name} {self.key}".strip()
