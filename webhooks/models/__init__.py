from webhooks.models.activity import Activity, ActivityDigest
from webhooks.models.inbox import Delivery, DeliveryAttempt, Refusal, SandboxToken, Secret
from webhooks.models.maintenance import CatalogModel, ModelServer, Reconciliation
from webhooks.models.resources import (
    TYPES,
    ClerkMembership,
    ClerkOrganization,
    ClerkSession,
    ClerkUser,
    ConfluenceComment,
    ConfluencePage,
    GithubDeployment,
    GithubDeploymentStatus,
    GithubIssue,
    GithubPullRequest,
    GithubPush,
    GithubRepository,
    GithubReview,
    JiraComment,
    JiraIssue,
    Resource,
    ResourceType,
    SandboxRun,
    SandboxSession,
    SandboxTelemetry,
    SandboxToolUse,
    StripeCustomer,
    StripeInvoice,
    StripeSubscription,
    is_flag,
)
from webhooks.models.starting import JobStart, Rule

__all__ = [
    "TYPES", "Activity", "ActivityDigest", "CatalogModel", "ClerkMembership", "ClerkOrganization", "ClerkSession",
    "ClerkUser", "ConfluenceComment", "ConfluencePage", "Delivery", "DeliveryAttempt", "GithubDeployment",
    "GithubDeploymentStatus", "GithubIssue", "GithubPullRequest", "GithubPush", "GithubRepository", "GithubReview",
    "JiraComment", "JiraIssue", "JobStart", "ModelServer", "Reconciliation", "Refusal", "Resource", "ResourceType",
    "Rule", "SandboxRun", "SandboxSession", "SandboxTelemetry", "SandboxToken", "SandboxToolUse", "Secret",
    "StripeCustomer", "StripeInvoice", "StripeSubscription", "is_flag",
]  # fmt: skip
