"""Every type of event that the samples have is handled, or ignored for a reason that is written down."""

import re
from pathlib import Path

import pytest

from tests.webhook_samples import handle, routed, samples
from webhooks.handlers import registry
from webhooks.handlers.registry import Event

DOCUMENT = Path(__file__).parents[3] / "docs" / "webhook-events.md"

WITHOUT_A_TYPE = ["confluence/example_anomalous_payload.1.json", "sandbox-hook-events/none.1.json"]
IGNORED = {
    "github/check_run.completed.1.json",
    "github/check_suite.completed.1.json",
    "github/installation.created.1.json",
    "github/label.created.1.json",
    "github/status.1.json",
    "github/workflow_job.in_progress.1.json",
    "confluence/test.1.json",
    "stripe/charge.succeeded.1.json",
    "stripe/payment_intent.succeeded.1.json",
    "stripe/plan.created.1.json",
}


class TestRoutes:
    def test_lead_every_sample_to_a_handler_or_a_reason(self) -> None:
        assert [sample.file for sample in samples() if not sample.type] == WITHOUT_A_TYPE
        assert [sample.file for sample in routed() if registry.find(sample.source, sample.type) is None] == []

    @pytest.mark.django_db
    def test_ignore_the_samples_that_tell_nothing_new(self) -> None:
        reasons = {sample.file: handle(sample.event()) for sample in routed()}
        assert {file for file, reason in reasons.items() if reason is not None} == IGNORED
        assert {reason for reason in reasons.values() if reason} <= {reason for *_, reason in registry.IGNORED}

    @pytest.mark.parametrize(
        ("source", "event_type", "other"),
        [
            ("github", "issues.typed", "issues.opened"),
            ("github", "repository.renamed", "repository.deleted"),
            ("clerk", "organizationInvitation.revoked", "organizationInvitation.created"),
            ("stripe", "invoice.voided", "invoice.paid"),
            ("stripe", "customer.subscription.paused", "customer.subscription.created"),
            ("jira", "comment_deleted", "comment_created"),
            ("confluence", "blog_trashed", "blog_created"),
            ("sandbox_hooks", "PreCompact", "Stop"),
            ("sandbox_completion", "sandbox.session.canceled", "sandbox.session.failed"),
        ],
    )
    def test_lead_types_of_one_shape_to_one_handler(self, source: str, event_type: str, other: str) -> None:
        assert registry.find(source, event_type) is registry.find(source, other) is not None

    def test_do_not_take_a_subscription_for_a_customer(self) -> None:
        assert registry.find("stripe", "customer.updated") is not registry.find(
            "stripe", "customer.subscription.updated"
        )

    def test_lead_unknown_types_nowhere(self) -> None:
        assert registry.find("stripe", "customer.discount.created") is None
        assert registry.find("github", "unheard_of.created") is None
        assert registry.find("github", "issues.unheard_of") is None
        assert registry.find("sandbox_completion", "sandbox.session.unheard_of") is None

    def test_are_each_taken_once(self) -> None:
        def another(_event: Event) -> None:
            """Never called."""

        with pytest.raises(ValueError, match="github push is handled twice"):
            registry.handles("github", "push")(another)

    def test_are_what_the_document_says(self) -> None:
        """docs/webhook-events.md names every type; if this fails, change it as the handlers changed."""
        listed = re.sub(r"`([\w.:]+)\{([\w,]+)\}`", _each, DOCUMENT.read_text())
        missing = [f"{source} {name}" for source, name in registry.everything() if f"`{name}`" not in listed]
        assert missing == []


def _each(folded: re.Match[str]) -> str:
    """The names that one with braces stands for."""
    return " ".join(f"`{folded[1]}{end}`" for end in folded[2].split(","))
