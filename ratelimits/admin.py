"""Limits in the admin: named ones that people make; the states of all, looked at, searched, reset."""

from typing import Final

from django import forms
from django.contrib import admin, messages
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string
from unfold.admin import ModelAdmin
from unfold.decorators import display

from core import administration, people
from ratelimits import operations, queries
from ratelimits.models import Bucket, Limit

AT_ONCE: Final = 1000  # rows whose limits one action resets
SHOWN: Final = 20  # of them in the question
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
        except (operations.InvalidName, operations.DeclaredLimit) as refusal:
            self.add_error("name", refusal.message)
        except operations.RateLimitsError as refusal:
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


@admin.register(Bucket)
class BucketAdmin(administration.ReadOnly):
    """One row for each shard of a limit and key, in the order of their index."""

    list_display = ["name", "shown_key", "gauge", "used", "shard_of"]
    list_filter = [administration.known("limit", "name", queries.names)]
    search_fields = ["key"]
    search_help_text = "The first characters of a key"
    ordering = ["name", "key", "shard"]
    sortable_by = ()
    fields = ["name", "shown_key", "gauge", "rate", "period_ms", "most", "is_window", "used", "shard_of"]
    readonly_fields = fields
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

    def has_reset_permission(self, request: HttpRequest) -> bool:
        """Whoever may delete states may reset limits."""
        return bool(request.user.has_perm("ratelimits.delete_bucket"))

    @display(description="Key")  # type: ignore[untyped-decorator]
    def shown_key(self, bucket: Bucket) -> str:
        person = getattr(bucket, "person", None)
        return f"{bucket.key} ({person})" if person else bucket.key or "all"

    @display(description="Shard")  # type: ignore[untyped-decorator]
    def shard_of(self, bucket: Bucket) -> str:
        """Which part of the limit it is, where it lies in several."""
        return f"{bucket.shard + 1} of {bucket.shards}" if bucket.shards > 1 else ""

    @display(description="Tokens")  # type: ignore[untyped-decorator]
    def gauge(self, bucket: Bucket) -> str:
        return render_to_string("ratelimits/parts/gauge.html", {"gauge": queries.gauge_of(bucket)})

    @admin.action(description="Reset", permissions=["reset"])
    def reset(self, request: HttpRequest, queryset: QuerySet[Bucket]) -> HttpResponse | None:
        """Make the limits and keys of these rows full again, with all their shards, after a question, and write into
        the log who did."""
        chosen = sorted(set(queryset.values_list("name", "key")[:AT_ONCE]))
        preview = [f"{name} {key or '(all)'}" for name, key in chosen[:SHOWN]]
        preview += [f"and {len(chosen) - SHOWN} more"] if len(chosen) > SHOWN else []
        dialog = {"title": "Reset these limits?", "button": "Reset them"}
        if question := administration.carry_out(self, request, lines=preview, **dialog):
            return question
        by = people.person(request)
        done = sum(operations.reset_stored(name, key, by=by) for name, key in chosen)
        self.message_user(request, f"Reset: {done}.", messages.SUCCESS if done else messages.WARNING)
        return None
