"""What a sender reports, kept in its newest state: one table, and a declared list of its types.

A type says how a resource is named, what it belongs to, and how the administration lists it. Each is a proxy of the
table, so that it has a page, rights and a name of its own. What a resource says is its `document`: moments in it are
ISO 8601 texts, durations are seconds, `parent` is the id of what it belongs to. Sessions and telemetry of sandboxes
have tables of their own. Nothing that the farm acts on is here.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from django.db import models
from django.db.models import F
from django.db.models.fields.json import KT
from django.db.models.functions import Now

from postgres.schema import loose
from webhooks.domain.deliveries import Source
from webhooks.domain.parts import KEY_LENGTH
from webhooks.models.inbox import Delivery


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceType:
    """How a type is named and listed; columns, filters and searches are fields of its documents.

    `title` has templates with ` | ` between them: the first that is not blank names the resource, else its id does; a
    field that the document lacks is "". `parent` is what the documents' parent is called, and `parent_type` the type
    it is of. A search that begins with `=` is for the whole value.
    """

    title: str = ""
    parent: str = ""
    parent_type: str = ""
    columns: tuple[str, ...] = ()
    filters: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()

    def name(self, document: Mapping[str, Any], external_id: str) -> str:
        known = {name: value for name, value in document.items() if value is not None}
        fields = defaultdict(str, known, external_id=external_id)
        names = (template.format_map(fields).strip() for template in self.title.split(" | ")) if known else ()
        return next(filter(None, names), external_id)


def is_flag(field: str) -> bool:
    return field.startswith("is_") or field == "banned"


class _OfItsType(models.Manager["Resource"]):
    def get_queryset(self) -> "models.QuerySet[Resource]":
        rows = super().get_queryset()
        return rows.filter(type=self.model.type_name()) if self.model._meta.proxy else rows


class Resource(models.Model):
    """One resource at a sender. Rows are written by `queries.results` alone, which never lets an older state win.

    Of a resource whose deletion was reported first, the id and `deleted_at` are known, and `state_at` is empty. What no
    event said of one is not in its document.
    """

    shape: ClassVar[ResourceType] = ResourceType()

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
        return self.shape.name(self.document, self.external_id)

    @classmethod
    def type_name(cls) -> str:
        """The name of its type, which lines of activity call their kind."""
        return cls.__name__.lower()


def short(**options: Any) -> Any:
    """A column of short text; "" where nothing is said."""
    return models.CharField(max_length=255, default="", blank=True, **options)


def _declare(
    name: str, label: str, title: str = "", *, plural: str = "", parent: tuple[str, str] = ("", ""),
    columns: str = "", filters: str = "", searches: str = "",
) -> type[Resource]:  # fmt: skip
    labels = {"verbose_name": label, "verbose_name_plural": plural or f"{label}s"}
    meta = type("Meta", (), {"proxy": True, "app_label": "webhooks", **labels})
    lists = {"columns": columns, "filters": filters, "searches": searches}
    shape = ResourceType(
        title=title,
        parent=parent[0],
        parent_type=parent[1],
        **{name: tuple(names.split()) for name, names in lists.items()},
    )
    body = {"__module__": __name__, "__doc__": f"A {label}.", "Meta": meta, "shape": shape}
    return type(name, (Resource,), body)


_OF_REPOSITORY = ("repository", "GithubRepository")

ClerkUser = _declare(
    "ClerkUser", "Clerk user", "{first_name} {last_name} | {username} | {email}",
    columns="email username banned", filters="banned", searches="email username first_name last_name",
)  # fmt: skip
ClerkOrganization = _declare(
    "ClerkOrganization", "Clerk organization", "{name}", columns="slug created_at", searches="name slug"
)
ClerkMembership = _declare(
    "ClerkMembership", "Clerk membership", parent=("organization", "ClerkOrganization"),
    columns="user_id role", filters="role", searches="=user_id",
)  # fmt: skip
ClerkSession = _declare(
    "ClerkSession", "Clerk session", parent=("user", "ClerkUser"), columns="status last_active_at", filters="status"
)
GithubRepository = _declare(
    "GithubRepository", "GitHub repository", "{full_name}", plural="GitHub repositories",
    columns="default_branch language is_private is_archived", filters="is_private is_archived is_fork",
    searches="full_name description",
)  # fmt: skip
GithubPush = _declare(
    "GithubPush", "GitHub push", "{ref} {before:.7}..{after:.7}", plural="GitHub pushes", parent=_OF_REPOSITORY,
    columns="pusher commits is_forced", filters="is_forced is_creation is_deletion",
    searches="ref pusher =after message",
)  # fmt: skip
GithubPullRequest = _declare(
    "GithubPullRequest", "GitHub pull request", "#{number} {title}", parent=_OF_REPOSITORY,
    columns="state is_draft author merged_at", filters="state is_draft", searches="title author head_ref =number",
)  # fmt: skip
GithubReview = _declare(
    "GithubReview", "GitHub review", "{state} by {author}", parent=("pull request", "GithubPullRequest"),
    columns="state author", filters="state", searches="author",
)  # fmt: skip
GithubIssue = _declare(
    "GithubIssue", "GitHub issue", "#{number} {title}", parent=_OF_REPOSITORY,
    columns="state reason author", filters="state reason", searches="title author =number",
)  # fmt: skip
GithubDeployment = _declare(
    "GithubDeployment", "GitHub deployment", "{ref} to {environment}", parent=_OF_REPOSITORY,
    columns="environment author", filters="environment", searches="ref author environment",
)  # fmt: skip
GithubDeploymentStatus = _declare(
    "GithubDeploymentStatus", "GitHub deployment status", "{state} in {environment}",
    plural="GitHub deployment statuses", parent=("deployment", "GithubDeployment"),
    columns="state environment", filters="state", searches="environment author",
)  # fmt: skip
JiraIssue = _declare(
    "JiraIssue", "Jira issue", "{key} {summary}", columns="kind status priority assignee",
    filters="category project", searches="key summary assignee reporter",
)  # fmt: skip
JiraComment = _declare(
    "JiraComment", "Jira comment", "comment by {author}", parent=("issue", "JiraIssue"),
    columns="author", searches="author body",
)  # fmt: skip
ConfluencePage = _declare(
    "ConfluencePage", "Confluence page", "{title} | {kind} {external_id}",
    columns="space kind status version", filters="kind status space", searches="title space",
)  # fmt: skip
ConfluenceComment = _declare(
    "ConfluenceComment", "Confluence comment", parent=("page", "ConfluencePage"), columns="author", searches="author"
)
StripeCustomer = _declare(
    "StripeCustomer", "Stripe customer", "{name} | {email}", columns="email is_delinquent is_live",
    filters="is_live is_delinquent", searches="name email",
)  # fmt: skip
StripeSubscription = _declare(
    "StripeSubscription", "Stripe subscription", parent=("customer", "StripeCustomer"),
    columns="status amount currency interval is_live", filters="status is_live", searches="price",
)  # fmt: skip
StripeInvoice = _declare(
    "StripeInvoice", "Stripe invoice", "{number}", parent=("customer", "StripeCustomer"),
    columns="status total currency due_at is_live", filters="status is_live", searches="number =subscription_id",
)  # fmt: skip
SandboxToolUse = _declare(
    "SandboxToolUse", "sandbox tool use", "{tool} {subject}", parent=("session", ""),
    columns="tool outcome duration_s", filters="outcome tool", searches="subject",
)  # fmt: skip
SandboxRun = _declare(
    "SandboxRun", "sandbox run", "{job} attempt {attempt}", parent=("session", ""),
    columns="status outcome turns cost_usd duration_s", filters="status outcome", searches="job sandbox",
)  # fmt: skip
TYPES: tuple[type[Resource], ...] = tuple(Resource.__subclasses__())


class SandboxSession(models.Model):
    """One session of an agent. Each of its columns is kept newest for itself, as every event has another part."""

    class Phase(models.TextChoices):
        STARTED = "started", "started"
        WORKING = "working", "working"
        ASKING = "asking", "asks for somebody"
        IDLE = "idle", "waits for a prompt"
        ENDED = "ended", "ended"

    external_id = models.CharField(max_length=255, help_text="The agent's own id of it.")
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    phase = models.CharField(max_length=7, choices=Phase.choices, default="", blank=True)
    phase_key = models.CharField(max_length=255, db_collation="C", default="", editable=False)
    reason = short(help_text="Why it ended.")
    model = short()
    model_key = models.CharField(max_length=255, db_collation="C", default="", editable=False)
    folder = short()
    folder_key = models.CharField(max_length=255, db_collation="C", default="", editable=False)
    sandbox = short()
    sandbox_key = models.CharField(max_length=255, db_collation="C", default="", editable=False)

    class Meta:
        ordering = ["-first_seen_at", "-id"]
        constraints = [models.UniqueConstraint(fields=["external_id"], name="one_row_for_each_sandbox_session")]
        # By its beginning, which stays: an index on last_seen_at would make every event write the index too.
        indexes = [models.Index(F("first_seen_at").desc(), F("id").desc(), name="sandboxsession_newest")]

    def __str__(self) -> str:
        return self.external_id


class SandboxTelemetry(models.Model):
    """One invocation of a sandbox's gateway. Kept for some days (`crons`)."""

    external_id = models.CharField(max_length=255, help_text="The delivery's id and the place in it.")
    at = models.DateTimeField()
    script = short()
    kind = short(help_text="The kind of event: fetch, scheduled, queue ...")
    subject = short(help_text="The address without its query, the cron, the queue.")
    status = models.IntegerField(null=True, blank=True, help_text="The HTTP status it answered with.")
    outcome = short(help_text="How it ended; not the HTTP status.")
    cpu_s = models.FloatField(null=True, blank=True)
    wall_s = models.FloatField(null=True, blank=True)
    logs = models.PositiveIntegerField(default=0)
    errors = models.PositiveIntegerField(default=0)
    error = models.TextField(default="", blank=True, help_text="The first exception.")

    class Meta:
        verbose_name = "sandbox telemetry"
        verbose_name_plural = "sandbox telemetry"
        ordering = ["-at", "-id"]
        constraints = [models.UniqueConstraint(fields=["external_id"], name="an_invocation_is_kept_once")]
        indexes = [models.Index(F("at").desc(), F("id").desc(), name="sandboxtelemetry_newest")]

    def __str__(self) -> str:
        return f"{self.script} {self.subject}".strip() or self.external_id


class Activity(models.Model):
    """One line: who did what to what. It speaks of its event alone, so it is the same whatever else had come."""

    delivery = loose(Delivery, related_name="activity")
    n = models.PositiveSmallIntegerField(help_text="Which entry of its delivery, from 0.")
    source = models.CharField(max_length=20, choices=[(s, s.label) for s in Source])
    at = models.DateTimeField(help_text="When it happened, by the sender's clock.")
    actor = short(help_text="Who did it; empty: the sender itself.")
    verb = models.CharField(max_length=100)
    object = models.CharField(max_length=500)
    kind = models.CharField(
        max_length=40, default="", blank=True, help_text="The table of the resource; empty: not kept."
    )
    resource = short(help_text="The resource's external_id.")
    link = models.CharField(max_length=500, default="", blank=True, help_text="To the sender; https alone.")
    written_at = models.DateTimeField(db_default=Now())

    class Meta:
        verbose_name_plural = "activity"
        ordering = ["-at", "-id"]
        constraints = [models.UniqueConstraint(fields=["delivery", "n"], name="a_delivery_emits_each_line_once")]
        indexes = [
            models.Index(F("at").desc(), F("id").desc(), name="activity_newest"),
            models.Index("source", F("at").desc(), F("id").desc(), name="activity_of_source"),
            models.Index("kind", "resource", F("at").desc(), name="activity_of_resource"),
        ]

    def __str__(self) -> str:
        return f"{self.actor} {self.verb} {self.object}".strip()


class ActivityDigest(models.Model):
    """What a day (UTC) came to, computed when somebody first asked; dropped daily, and when a late line comes."""

    day = models.DateField(primary_key=True)
    digest = models.JSONField()
    computed_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-day"]

    def __str__(self) -> str:
        return f"activity of {self.day}"


class ModelServer(models.Model):
    """An OpenAI-compatible server of settings.LLM_SERVERS, and how asking it for its models went."""

    url = models.CharField(max_length=500, primary_key=True)
    polled_at = models.DateTimeField(null=True)
    answered_at = models.DateTimeField(null=True, help_text="When it last answered without an error.")
    error = models.TextField(null=True, help_text="Why the last request failed; empty if it succeeded.")

    class Meta:
        ordering = ["url"]

    def __str__(self) -> str:
        return self.url


class CatalogModel(models.Model):
    """A language model that a server offers, or did until `gone_at`."""

    server = models.ForeignKey(ModelServer, models.CASCADE, related_name="models")
    name = models.CharField(max_length=255)
    owned_by = models.CharField(max_length=255, default="")
    made_at = models.DateTimeField(null=True, help_text="As the server says.")
    first_seen_at = models.DateTimeField(db_default=Now())
    last_seen_at = models.DateTimeField(db_default=Now())
    gone_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["server", "name"]
        constraints = [models.UniqueConstraint(fields=["server", "name"], name="a_server_offers_a_model_once")]

    def __str__(self) -> str:
        return f"{self.name} at {self.server_id}"
