"""Limits in the admin: named ones that people make; the states of all, looked at, searched, reset."""

from typing import Final

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest
from django.template.loader import render_to_string
from unfold.admin import ModelAdmin

from core import administration, people
from ratelimits import operations, queries
from ratelimits.errors import DeclaredLimit, InvalidName, RateLimitsError
from ratelimits.models import Bucket, Limit

LAST: Final = "\U0010ffff"  # sorts behind whatever follows the beginning of a key


class LimitForm(forms.ModelForm):  # type: ignore[type-arg]  # Django's own class takes no parameter
    """The numbers of a limit. The rules are those of `ratelimits.domain`, whose configuration is built here."""

    class Meta:
        model = Limit
        fields = ("name", "is_window", "rate", "period_s", "capacity", "max_reserved")

    def _post_clean(self) -> None:
        """What its rules say of the whole, once every field is good by itself: Django looks at those here."""
        super()._post_clean()  # type: ignore[misc]  # the stubs leave Django's hook out
        if self.errors:
            return
        try:
            if "name" in self.cleaned_data:
                operations.check_new(self.cleaned_data["name"])
            numbers = {name: value for name, value in self.cleaned_data.items() if name != "name"}
            self.config = operations.config_from(**numbers)
        except (InvalidName, DeclaredLimit) as refusal:
            self.add_error("name", refusal.message)
        except RateLimitsError as refusal:
            self.add_error(None, refusal.message)


@admin.register(Limit)
class LimitAdmin(ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    """Limits for kinds that are made here; limits declared in code are on the page of limits."""

    form = LimitForm
    list_display = ["name", "is_window", "rate", "period_s", "capacity", "max_reserved"]
    search_fields = ["name"]

    def get_readonly_fields(self, request: HttpRequest, obj: Limit | None = None) -> list[str]:  # noqa: ARG002
        """Kinds say their limit by name, so the name stays."""
        return ["name"] if obj else []

    def has_delete_permission(self, request: HttpRequest, obj: Limit | None = None) -> bool:  # noqa: ARG002
        """Never: kinds that name it could submit no job."""
        return False

    def save_model(self, request: HttpRequest, obj: Limit, form: LimitForm, change: bool) -> None:  # noqa: ARG002
        """Keep it by the operation; the line in the log is Django's own."""
        operations.make(obj.pk, form.config)


def _key(bucket: Bucket) -> str:
    person = getattr(bucket, "person", None)
    return f"{bucket.key} ({person})" if person else bucket.key or "all"


def _reset(request: HttpRequest, row: Bucket) -> str:
    return "reset" if operations.reset_stored(row.name, row.key, by=people.person(request)) else "full already"


@admin.register(Bucket)
class BucketAdmin(administration.Operated, administration.ReadOnly):
    """One row for each shard of a limit and key, in the order of their index. Whoever may delete states may reset."""

    operate = "ratelimits.delete_bucket"

    list_display = ["name", "shown_key", "gauge", "used", "shard_of"]
    list_filter = [administration.known("limit", "name", queries.names)]
    search_fields = ["key"]
    search_help_text = "The first characters of a key"
    ordering = ["name", "key", "shard"]
    sortable_by = ()
    fields = ["name", "shown_key", "gauge", "rate", "period_ms", "most", "is_window", "used", "shard_of"]
    actions = ["reset"]

    class Media:
        css = {"all": ["ratelimits/limits.css"]}

    def get_queryset(self, request: HttpRequest) -> QuerySet[Bucket]:
        """The rows with the database's clock beside each, for the gauges."""
        rows: QuerySet[Bucket] = super().get_queryset(request).annotate(now=Now())
        return queries.with_people(rows)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Bucket], search_term: str  # noqa: ARG002  # the admin's
    ) -> tuple[QuerySet[Bucket], bool]:  # fmt: skip
        """The keys that begin so. The index begins with the name, so it is asked once for each limit there is."""
        term = search_term.strip()
        if not term:
            return queryset, False
        return queryset.filter(name__in=queries.names(), key__gte=term, key__lt=term + LAST), False

    shown_key = administration.shown("Key", _key)
    # Which part of the limit it is, where it lies in several.
    shard_of = administration.shown("Shard", lambda row: f"{row.shard + 1} of {row.shards}" if row.shards > 1 else "")
    gauge = administration.shown(
        "Tokens", lambda row: render_to_string("ratelimits/parts/gauge.html", {"gauge": queries.gauge_of(row)})
    )

    # With all the shards of the limit and key; what was full again meanwhile needs none.
    reset = administration.on_each("Reset {}", _reset, line=lambda row: f"{row.name} {row.key or '(all)'}")
