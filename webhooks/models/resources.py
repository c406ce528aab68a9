"""What a sender reports, kept in its newest state: one table, and a declared list of its types.

A type says how a resource is named, what it belongs to, and how the administration lists it. Each is a proxy of the
table, so that it has a page, rights and a name of its own. What a resource says is its `document`: moments in it are
ISO 8601 texts, durations are seconds, `parent` is the id of what it belongs to. Nothing that the farm acts on is here.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from django.db import models
from django.db.models import F
from django.db.models.fields.json import KT

from webhooks.domain.staleness import KEY_LENGTH

Title = Callable[[Mapping[str, Any]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceType:
    """How a type is named and listed; columns, filters and searches are fields of its documents.

    `title` is given the document with its `external_id`; a field that it lacks is "". `parent` is what the documents'
    parent is called, and `parent_type` the type it is of. A search that begins with `=` is for the whole value.
    """

    title: Title
    parent: str = ""
    parent_type: str = ""
    columns: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()  # filters by yes and no
    searches: tuple[str, ...] = ()


class _OfItsType(models.Manager["Resource"]):
    def get_queryset(self) -> "models.QuerySet[Resource]":
        rows = super().get_queryset()
        return rows.filter(type=self.model.type_name()) if self.model._meta.proxy else rows  # noqa: SLF001 (Django documents _meta)


class Resource(models.Model):
    """One resource at a sender. Rows are written by `queries.upserts` alone, which never lets an older state win.

    Of a resource whose deletion was reported first, the id and `deleted_at` are known, and `state_at` is empty. What no
    event said of one is not in its document.
    """

    shape: ClassVar[ResourceType] = ResourceType(title=lambda document: document["external_id"])

    type = models.CharField(max_length=30, help_text="One of the declared types.")
    external_id = models.CharField(max_length=255, help_text="The sender's own id of it.")
    document = models.JSONField(default=dict, blank=True, help_text="What its sender says of it.")
    parent: Any = models.GeneratedField(
        expression=KT("document__parent"), output_field=models.TextField(null=True, blank=True), db_persist=True
    )
    state_key = models.CharField(
        max_length=KEY_LENGTH,
        db_collation="C",  # compared byte by byte
        default="",
        blank=True,
        editable=False,
        help_text="How new the state is; the greater text is the newer.",
    )
    state_at = models.DateTimeField(
        null=True, blank=True, help_text="The moment that the state is of, by the sender's clock."
    )
    field_keys = models.JSONField(
        null=True,
        blank=True,
        editable=False,
        help_text="For fields that the newest state does not say: the key of the one that did. Null: it says them all.",
    )
    deleted_at = models.DateTimeField(null=True, blank=True, help_text="When it was deleted there.")

    objects = _OfItsType()

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["type", "external_id"], name="one_row_for_each_resource")]
        indexes = [
            models.Index(F("type"), F("id").desc(), name="resource_newest"),
            models.Index(F("type"), F("parent"), F("id").desc(), name="resource_by_parent"),
        ]

    def __str__(self) -> str:
        fields = {name: value for name, value in self.document.items() if value is not None}
        title = str(self.shape.title(defaultdict(str, fields, external_id=self.external_id))) if fields else ""
        return title.strip() or self.external_id

    @classmethod
    def type_name(cls) -> str:
        """The name of its type, which lines of activity call their kind."""
        return cls.__name__.lower()


def short(**options: Any) -> Any:
    """A column of short text; "" where nothing is said."""
    return models.CharField(max_length=255, default="", blank=True, **options)


def _declare(name: str, label: str, *, plural: str = "", **shape: Any) -> type[Resource]:
    words = {
        "proxy": True,
        "app_label": "webhooks",
        "verbose_name": label,
        "verbose_name_plural": plural or f"{label}s",
    }
    meta = type("Meta", (), words)
    body = {"__module__": __name__, "__doc__": f"A {label}.", "Meta": meta, "shape": ResourceType(**shape)}
    return type(name, (Resource,), body)


ClerkUser = _declare(
    "ClerkUser",
    "Clerk user",
    title=lambda user: f"{user['first_name']} {user['last_name']}".strip() or user["username"] or user["email"],
    columns=("email", "username", "banned"),
    flags=("banned",),
    searches=("email", "username", "first_name", "last_name"),
)
ClerkOrganization = _declare(
    "ClerkOrganization",
    "Clerk organization",
    title=lambda organization: organization["name"],
    columns=("slug", "created_at"),
    searches=("name", "slug"),
)
ClerkMembership = _declare(
    "ClerkMembership",
    "Clerk membership",
    title=lambda membership: membership["external_id"],
    parent="organization",
    parent_type="ClerkOrganization",
    columns=("user_id", "role"),
    filters=("role",),
    searches=("=user_id",),
)
ClerkSession = _declare(
    "ClerkSession",
    "Clerk session",
    title=lambda session: session["external_id"],
    parent="user",
    parent_type="ClerkUser",
    columns=("status", "last_active_at"),
    filters=("status",),
)
GithubRepository = _declare(
    "GithubRepository",
    "GitHub repository",
    plural="GitHub repositories",
    title=lambda repository: repository["full_name"],
    columns=("default_branch", "language", "is_private", "is_archived"),
    flags=("is_private", "is_archived", "is_fork"),
    searches=("full_name", "description"),
)
GithubPush = _declare(
    "GithubPush",
    "GitHub push",
    plural="GitHub pushes",
    title=lambda push: f"{push['ref']} {push['before'][:7]}..{push['after'][:7]}",
    parent="repository",
    parent_type="GithubRepository",
    columns=("pusher", "commits", "is_forced"),
    flags=("is_forced", "is_creation", "is_deletion"),
    searches=("ref", "pusher", "=after", "message"),
)
GithubPullRequest = _declare(
    "GithubPullRequest",
    "GitHub pull request",
    title=lambda pull_request: f"#{pull_request['number']} {pull_request['title']}",
    parent="repository",
    parent_type="GithubRepository",
    columns=("state", "is_draft", "author", "merged_at"),
    filters=("state",),
    flags=("is_draft",),
    searches=("title", "author", "head_ref", "=number"),
)
GithubReview = _declare(
    "GithubReview",
    "GitHub review",
    title=lambda review: f"{review['state']} by {review['author']}",
    parent="pull request",
    parent_type="GithubPullRequest",
    columns=("state", "author"),
    filters=("state",),
    searches=("author",),
)
GithubIssue = _declare(
    "GithubIssue",
    "GitHub issue",
    title=lambda issue: f"#{issue['number']} {issue['title']}",
    parent="repository",
    parent_type="GithubRepository",
    columns=("state", "reason", "author"),
    filters=("state", "reason"),
    searches=("title", "author", "=number"),
)
GithubDeployment = _declare(
    "GithubDeployment",
    "GitHub deployment",
    title=lambda deployment: f"{deployment['ref']} to {deployment['environment']}",
    parent="repository",
    parent_type="GithubRepository",
    columns=("environment", "author"),
    filters=("environment",),
    searches=("ref", "author", "environment"),
)
GithubDeploymentStatus = _declare(
    "GithubDeploymentStatus",
    "GitHub deployment status",
    plural="GitHub deployment statuses",
    title=lambda status: f"{status['state']} in {status['environment']}",
    parent="deployment",
    parent_type="GithubDeployment",
    columns=("state", "environment"),
    filters=("state",),
    searches=("environment", "author"),
)
JiraIssue = _declare(
    "JiraIssue",
    "Jira issue",
    title=lambda issue: f"{issue['key']} {issue['summary']}",
    columns=("kind", "status", "priority", "assignee"),
    filters=("category", "project"),
    searches=("key", "summary", "assignee", "reporter"),
)
JiraComment = _declare(
    "JiraComment",
    "Jira comment",
    title=lambda comment: f"comment by {comment['author']}",
    parent="issue",
    parent_type="JiraIssue",
    columns=("author",),
    searches=("author", "body"),
)
ConfluencePage = _declare(
    "ConfluencePage",
    "Confluence page",
    title=lambda page: page["title"] or f"{page['kind']} {page['external_id']}",
    columns=("space", "kind", "status", "version"),
    filters=("kind", "status", "space"),
    searches=("title", "space"),
)
ConfluenceComment = _declare(
    "ConfluenceComment",
    "Confluence comment",
    title=lambda comment: comment["external_id"],
    parent="page",
    parent_type="ConfluencePage",
    columns=("author",),
    searches=("author",),
)
StripeCustomer = _declare(
    "StripeCustomer",
    "Stripe customer",
    title=lambda customer: customer["name"] or customer["email"],
    columns=("email", "is_delinquent", "is_live"),
    flags=("is_live", "is_delinquent"),
    searches=("name", "email"),
)
StripeSubscription = _declare(
    "StripeSubscription",
    "Stripe subscription",
    title=lambda subscription: subscription["external_id"],
    parent="customer",
    parent_type="StripeCustomer",
    columns=("status", "amount", "currency", "interval", "is_live"),
    filters=("status",),
    flags=("is_live",),
    searches=("price",),
)
StripeInvoice = _declare(
    "StripeInvoice",
    "Stripe invoice",
    title=lambda invoice: invoice["number"],
    parent="customer",
    parent_type="StripeCustomer",
    columns=("status", "total", "currency", "due_at", "is_live"),
    filters=("status",),
    flags=("is_live",),
    searches=("number", "=subscription_id"),
)
SandboxToolUse = _declare(
    "SandboxToolUse",
    "sandbox tool use",
    title=lambda use: f"{use['tool']} {use['subject']}",
    parent="session",
    columns=("tool", "outcome", "duration_s"),
    filters=("outcome", "tool"),
    searches=("subject",),
)
SandboxRun = _declare(
    "SandboxRun",
    "sandbox run",
    title=lambda run: f"{run['job']} attempt {run['attempt']}",
    parent="session",
    columns=("status", "outcome", "turns", "cost_usd", "duration_s"),
    filters=("status", "outcome"),
    searches=("job", "sandbox"),
)
TYPES: tuple[type[Resource], ...] = tuple(Resource.__subclasses__())
