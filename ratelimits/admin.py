"""The states of limits in the admin: looked at, searched, reset."""

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.template.loader import render_to_string
from unfold.admin import ModelAdmin
from unfold.decorators import display

from ratelimits import operations, queries
from ratelimits.models import Bucket


@admin.register(Bucket)
class BucketAdmin(ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    """One row for each shard of a limit and key; those most used first."""

    list_display = ["name", "shown_key", "gauge", "used", "shard_of"]
    list_filter = ["name", "is_window"]
    search_fields = ["name", "key"]
    ordering = ["-used", "name", "key", "shard"]
    list_per_page = 50
    fields = ["name", "shown_key", "gauge", "rate", "period_ms", "most", "is_window", "used", "shard_of"]
    readonly_fields = fields
    actions = ["reset"]

    def has_add_permission(self, request: HttpRequest) -> bool:  # noqa: ARG002  # the admin's signature
        """Never: a limit is stored by being used."""
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Never: a state is reset as a whole or left alone."""
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Bucket]:
        """The rows with the database's clock beside each, for the gauges."""
        rows: QuerySet[Bucket] = super().get_queryset(request).annotate(now=Now())
        return rows

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:  # noqa: ARG002
        """Never one row: a limit with one shard missing would be a little fuller than before."""
        return False

    def has_reset_permission(self, request: HttpRequest) -> bool:
        """Whoever may delete states may reset limits."""
        return bool(request.user.has_perm("ratelimits.delete_bucket"))

    @display(description="Key", ordering="key")  # type: ignore[untyped-decorator]
    def shown_key(self, bucket: Bucket) -> str:
        """Whose state it is."""
        return bucket.key or "all"

    @display(description="Shard")  # type: ignore[untyped-decorator]
    def shard_of(self, bucket: Bucket) -> str:
        """Which part of the limit it is, where it lies in several."""
        return f"{bucket.shard + 1} of {bucket.shards}" if bucket.shards > 1 else ""

    @display(description="Holds now")  # type: ignore[untyped-decorator]
    def gauge(self, bucket: Bucket) -> str:
        """What the row holds at this moment."""
        return render_to_string("ratelimits/parts/gauge.html", {"gauge": queries.gauge_of(bucket)})

    @admin.action(description="Reset: make full again", permissions=["reset"])
    def reset(self, request: HttpRequest, queryset: QuerySet[Bucket]) -> None:
        """Make the limits and keys of these rows full again, with all their shards, and write into the log
        who did."""
        chosen = sorted(set(queryset.values_list("name", "key")))
        done = sum(operations.reset_stored(name, key, by=request.user) for name, key in chosen)  # type: ignore[arg-type]
        self.message_user(request, f"Reset: {done}.", messages.SUCCESS if done else messages.WARNING)
