"""The tables of the app, by what they hold."""

from webhooks.models.activity import Activity, ActivityDigest
from webhooks.models.clerk import ClerkMembership, ClerkOrganization, ClerkSession, ClerkUser
from webhooks.models.confluence import ConfluenceComment, ConfluencePage
from webhooks.models.github import (
    GithubDeployment,
    GithubDeploymentStatus,
    GithubIssue,
    GithubPullRequest,
    GithubPush,
    GithubRepository,
    GithubReview,
)
from webhooks.models.inbox import Delivery, DeliveryAttempt, Refusal, SandboxToken, Secret
from webhooks.models.jira import JiraComment, JiraIssue
from webhooks.models.maintenance import CatalogModel, ModelServer, Reconciliation
from webhooks.models.resources import Resource
from webhooks.models.sandbox import SandboxRun, SandboxSession, SandboxTelemetry, SandboxToolUse
from webhooks.models.starting import JobStart, Rule
from webhooks.models.stripe import StripeCustomer, StripeInvoice, StripeSubscription

__all__ = [
    "Activity",
    "ActivityDigest",
    "CatalogModel",
    "ClerkMembership",
    "ClerkOrganization",
    "ClerkSession",
    "ClerkUser",
    "ConfluenceComment",
    "ConfluencePage",
    "Delivery",
    "DeliveryAttempt",
    "GithubDeployment",
    "GithubDeploymentStatus",
    "GithubIssue",
    "GithubPullRequest",
    "GithubPush",
    "GithubRepository",
    "GithubReview",
    "JiraComment",
    "JiraIssue",
    "JobStart",
    "ModelServer",
    "Reconciliation",
    "Refusal",
    "Rule",
    "SandboxRun",
    "SandboxSession",
    "SandboxTelemetry",
    "SandboxToken",
    "SandboxToolUse",
    "Secret",
    "StripeCustomer",
    "StripeInvoice",
    "StripeSubscription",
    "Resource",
]
