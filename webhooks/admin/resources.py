"""The sources' resources, each in its newest state: to browse, to search, and to follow from one to the next."""

from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from django.contrib import admin
from django.db.models import BooleanField, ForeignKey, Model, QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString
from unfold.decorators import display

from core import administration
from webhooks import models
from webhooks.admin import common


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """How a table is listed: its columns, its filters, and the fields searched besides the sender's id."""

    shows: tuple[str, ...]
    filters: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()


_LISTINGS: Final[dict[type[Model], Listing]] = {
    models.ClerkUser: Listing(
        shows=("email", "username", "banned"),
        filters=("banned",),
        searches=("email", "username", "first_name", "last_name"),
    ),
    models.ClerkOrganization: Listing(shows=("slug", "created_at"), searches=("name", "slug")),
    models.ClerkMembership: Listing(shows=("user", "organization", "role"), filters=("role",)),
    models.ClerkSession: Listing(shows=("user", "status", "last_active_at"), filters=("status",)),
    models.GithubRepository: Listing(
        shows=("default_branch", "language", "is_private", "is_archived"),
        filters=("is_private", "is_archived", "is_fork"),
        searches=("full_name", "description"),
    ),
    models.GithubPush: Listing(
        shows=("repository", "pusher", "commits", "is_forced"),
        filters=("is_forced", "is_creation", "is_deletion"),
        searches=("ref", "pusher", "=after", "message"),
    ),
    models.GithubPullRequest: Listing(
        shows=("repository", "state", "is_draft", "author", "merged_at"),
        filters=("state", "is_draft"),
        searches=("title", "author", "head_ref", "=number"),
    ),
    models.GithubReview: Listing(shows=("pull_request", "state", "author"), filters=("state",), searches=("author",)),
    models.GithubIssue: Listing(
        shows=("repository", "state", "reason", "author"),
        filters=("state", "reason"),
        searches=("title", "author", "=number"),
    ),
    models.GithubDeployment: Listing(
        shows=("repository", "environment", "author"),
        filters=("environment",),
        searches=("ref", "author", "environment"),
    ),
    models.GithubDeploymentStatus: Listing(
        shows=("deployment", "state", "environment"), filters=("state",), searches=("environment", "author")
    ),
    models.JiraIssue: Listing(
        shows=("kind", "status", "priority", "assignee"),
        filters=("category", "project"),
        searches=("key", "summary", "assignee", "reporter"),
    ),
    models.JiraComment: Listing(shows=("issue", "author"), searches=("author", "body")),
    models.ConfluencePage: Listing(
        shows=("space", "kind", "status", "version"), filters=("kind", "status", "space"), searches=("title", "space")
    ),
    models.ConfluenceComment: Listing(shows=("page", "author"), searches=("author",)),
    models.StripeCustomer: Listing(
        shows=("email", "is_delinquent", "is_live"), filters=("is_live", "is_delinquent"), searches=("name", "email")
    ),
    models.StripeSubscription: Listing(
        shows=("customer", "status", "amount", "currency", "interval", "is_live"),
        filters=("status", "is_live"),
        searches=("=customer__external_id", "price"),
    ),
    models.StripeInvoice: Listing(
        shows=("customer", "status", "total", "currency", "due_at", "is_live"),
        filters=("status", "is_live"),
        searches=("number", "=customer__external_id"),
    ),
    models.SandboxToolUse: Listing(
        shows=("session", "tool", "outcome", "duration"),
        filters=("outcome", "tool"),
        searches=("subject", "=session__external_id"),
    ),
    models.SandboxRun: Listing(
        shows=("session", "status", "outcome", "turns", "cost_usd", "duration"),
        filters=("status", "outcome"),
        searches=("job", "sandbox", "=session__external_id"),
    ),
}


_recent = cache(administration.recent)  # one class for a column: Django compares them


class ResourceAdmin(common.BoundedList):
    listing: Listing

    def get_list_display(self, request: HttpRequest) -> list[str]:  # noqa: ARG002  # the admin's
        return ["__str__", *self.listing.shows, "state_at", "deleted_at"]

    def get_list_filter(self, request: HttpRequest) -> list[Any]:  # noqa: ARG002
        cheap = [self._cheap(name) for name in self.listing.filters]
        return [*cheap, administration.by_day("state_at"), ("deleted_at", admin.EmptyFieldListFilter)]

    def get_search_fields(self, request: HttpRequest) -> list[str]:  # noqa: ARG002
        """The sender's id whole, the others in part."""
        return ["=external_id", *self.listing.searches]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """With what it belongs to, which may not have come: without the join, asking for it would be an error."""
        rows: QuerySet[Any] = super().get_queryset(request)
        belongs_to = [field.name for field in self.opts.get_fields() if isinstance(field, ForeignKey)]
        return rows.select_related(*belongs_to)

    def _cheap(self, name: str) -> Any:
        """Django would ask the whole table for the values of a text."""
        field = self.opts.get_field(name)
        return name if isinstance(field, BooleanField) or getattr(field, "choices", None) else _recent(name)


for _model, _listing in _LISTINGS.items():
    admin.site.register(_model, type(f"{_model.__name__}Admin", (ResourceAdmin,), {"listing": _listing}))


@admin.register(models.SandboxSession)
class SandboxSessionAdmin(common.BoundedList):
    list_display = ["external_id", "sandbox", "phase", "model", "first_seen_at", "last_seen_at"]
    list_filter = ["phase", _recent("model"), administration.by_day("first_seen_at")]
    search_fields = ["=external_id", "sandbox", "folder"]


@admin.register(models.SandboxTelemetry)
class SandboxTelemetryAdmin(common.BoundedList):
    list_display = ["at", "script", "kind", "subject", "status", "outcome", "cpu_s", "wall_s", "errors"]
    list_filter = [*map(_recent, ("outcome", "kind", "script")), administration.by_day("at")]
    search_fields = ["=external_id", "subject", "error"]


@admin.register(models.Activity)
class ActivityAdmin(common.BoundedList):
    list_display = ["at", "source", "actor", "verb", "object", "delivery_link"]
    list_display_links = ["at"]
    list_filter = ["source", _recent("kind"), administration.by_day("at")]
    search_fields = ["actor", "verb", "object", "=resource"]
    exclude = ["delivery"]
    readonly_fields = ["delivery_link"]

    @display(description="Delivery")  # type: ignore[untyped-decorator]
    def delivery_link(self, entry: models.Activity) -> SafeString | str:
        return administration.link("webhooks_delivery", entry.delivery_id, f"#{entry.delivery_id}")


class CatalogModelInline(administration.Part):
    model = models.CatalogModel
    fields = ["name", "owned_by", "first_seen_at", "last_seen_at", "gone_at"]
    readonly_fields = fields


@admin.register(models.ModelServer)
class ModelServerAdmin(common.ReadOnly):
    """The servers that are asked for their models every night."""

    list_display = ["url", "polled_at", "answered_at", "error"]
    inlines = [CatalogModelInline]


@admin.register(models.Reconciliation)
class ReconciliationAdmin(common.BoundedList):
    list_display = ["id", "ran_at", "deliveries_without_run", "jobs_without_end", "files_without_job"]
    list_filter = [administration.by_day("ran_at")]
