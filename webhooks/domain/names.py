"""The eight sources, by name."""

from enum import StrEnum


class Source(StrEnum):
    """Who sends webhooks."""

    CLERK = "clerk"
    GITHUB = "github"
    JIRA = "jira"
    CONFLUENCE = "confluence"
    STRIPE = "stripe"
    SANDBOX_HOOKS = "sandbox_hooks"
    SANDBOX_COMPLETION = "sandbox_completion"
    SANDBOX_TELEMETRY = "sandbox_telemetry"

    @property
    def label(self) -> str:
        """The name for people."""
        return _LABELS[self]


_LABELS = {
    Source.CLERK: "Clerk",
    Source.GITHUB: "GitHub",
    Source.JIRA: "Jira",
    Source.CONFLUENCE: "Confluence",
    Source.STRIPE: "Stripe",
    Source.SANDBOX_HOOKS: "Sandbox hooks",
    Source.SANDBOX_COMPLETION: "Sandbox completion",
    Source.SANDBOX_TELEMETRY: "Sandbox telemetry",
}


def has_unsigned_id(source: Source) -> bool:
    """Whether the delivery id lies outside of what the sender signs, so that the body's digest is a second key."""
    return source in {Source.GITHUB, Source.JIRA, Source.CONFLUENCE}
