"""What a verified request says about itself: id, type and time, by source."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.looped import looped
from webhooks.domain.deliveries import Source
from webhooks.errors import BadEnvelope
from webhooks.sources import configs, requests
from webhooks.sources.requests import Envelope, Request, Verified

UNDATED = {Source.GITHUB, Source.JIRA, Source.CONFLUENCE}  # their signatures have no time
SIGNED_AT = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
AT = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)
AT_MS, AT_S = int(AT.timestamp() * 1000), int(AT.timestamp())


def read(source: Source, document: Any, *, query: dict[str, str] | None = None, **headers: str) -> Envelope:
    body = json.dumps(document).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = Request(headers=named, body=body, query=query or {})
    signed_at = None if source in UNDATED else SIGNED_AT
    return configs.CONFIGS[source].envelope(request, document, verified=Verified(key_id=1, signed_at=signed_at))


def digest(document: Any) -> str:
    return f"sha256:{hashlib.sha256(json.dumps(document).encode()).hexdigest()}"


def envelope(delivery_id: str, event_type: str, occurred_at: datetime | None) -> Envelope:
    return Envelope(delivery_id=delivery_id, event_type=event_type, occurred_at=occurred_at)


class TestEnvelope:
    def test_of_clerk_has_the_id_of_svix_and_the_bodys_time(self) -> None:
        body = {"type": "user.created", "timestamp": AT_MS}
        assert read(Source.CLERK, body, svix_id="msg_1") == envelope("msg_1", "user.created", AT)
        assert read(Source.CLERK, body, webhook_id="msg_2").delivery_id == "msg_2"

    def test_of_github_joins_event_and_action(self) -> None:
        issue = read(Source.GITHUB, {"action": "opened"}, x_github_event="issues", x_github_delivery="guid")
        assert issue == envelope("guid", "issues.opened", None)
        assert read(Source.GITHUB, {"ref": "x"}, x_github_event="push", x_github_delivery="g").event_type == "push"

    def test_of_jira_is_the_bodys_under_the_identifier(self) -> None:
        body = {"webhookEvent": "jira:issue_updated", "timestamp": AT_MS}
        found = read(Source.JIRA, body, x_atlassian_webhook_identifier="id")
        assert found == envelope("id", "jira:issue_updated", AT)
        assert read(Source.JIRA, body).delivery_id == digest(body)

    def test_of_confluence_names_the_event_by_body_address_or_form(self) -> None:
        named = {"event": "page_moved", "timestamp": AT_MS, "page": {"id": 1}}
        assert read(Source.CONFLUENCE, named) == envelope(digest(named), "page_moved", AT)
        assert read(Source.CONFLUENCE, {"page": {}}, query={"event": "page_trashed"}).event_type == "page_trashed"
        assert read(Source.CONFLUENCE, {"page": {"version": 1}}).event_type == "page_created"
        assert read(Source.CONFLUENCE, {"page": {"version": 2}}).event_type == "page_updated"
        assert read(Source.CONFLUENCE, {"page": {}, "comment": {"version": 1}}).event_type == "comment_created"
        assert read(Source.CONFLUENCE, {"test": True}).event_type == "test"

    def test_of_stripe_is_the_bodys_alone(self) -> None:
        body = {"id": "evt_1", "type": "invoice.paid", "created": AT_S}
        assert read(Source.STRIPE, body) == envelope("evt_1", "invoice.paid", AT)
        thin = {"id": "evt_2", "type": "v2.core.event", "created": AT.isoformat()}
        assert read(Source.STRIPE, thin) == envelope("evt_2", "v2.core.event", AT)

    def test_of_a_hook_is_dated_by_its_signature(self) -> None:
        body = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_use_id": "t"}
        assert read(Source.SANDBOX_HOOKS, body, webhook_id="msg_1") == envelope("msg_1", "PreToolUse", SIGNED_AT)

    def test_of_a_hook_without_an_id_is_known_by_session_event_and_tool_use(self) -> None:
        body = {"hook_event_name": "PreToolUse", "session_id": "s", "tool_use_id": "t"}
        assert read(Source.SANDBOX_HOOKS, body).delivery_id == "s:PreToolUse:t"
        other = {"hook_event_name": "Stop", "session_id": "s"}
        assert read(Source.SANDBOX_HOOKS, other).delivery_id == digest(other)

    def test_of_a_completion_is_dated_by_its_body(self) -> None:
        body = {"type": "sandbox.session.failed", "timestamp": "2026-11-20T13:30:00+01:00"}
        assert read(Source.SANDBOX_COMPLETION, body, webhook_id="m") == envelope("m", "sandbox.session.failed", AT)

    @pytest.mark.parametrize("document", [[], [{"outcome": "ok"}, {}], {"outcome": "ok"}])
    def test_of_telemetry_is_a_batch_whatever_is_in_it(self, document: Any) -> None:
        assert read(Source.SANDBOX_TELEMETRY, document, webhook_id="m") == envelope("m", "batch", SIGNED_AT)


class TestWithoutAType:
    @pytest.mark.parametrize("source", [source for source in Source if source is not Source.SANDBOX_TELEMETRY])
    @pytest.mark.parametrize("field", ["type", "webhookEvent", "event", "hook_event_name"])
    @pytest.mark.parametrize("missing", [None, ""])
    def test_the_type_is_empty(self, source: Source, field: str, missing: str | None) -> None:
        body = {field: missing, "id": "evt_1"}
        assert read(source, body, svix_id="m", webhook_id="m", x_github_delivery="m").event_type == ""


class TestBadEnvelopes:
    @pytest.mark.parametrize("source", [source for source in Source if source is not Source.SANDBOX_TELEMETRY])
    @pytest.mark.parametrize("document", [None, [], "x", 1])
    def test_are_refused(self, source: Source, document: Any) -> None:
        with pytest.raises(BadEnvelope):
            read(source, document, svix_id="m", webhook_id="m", x_github_delivery="m")

    @looped("document", [None, 1, "x", [1], [{}, None]])
    def test_of_telemetry_are_refused(self, document: Any) -> None:
        with pytest.raises(BadEnvelope):
            read(Source.SANDBOX_TELEMETRY, document, webhook_id="m")

    @looped("bad", ["x" * 256, "a\nb", "\x1b[31m", 5, {}, True])
    def test_are_those_whose_type_is_no_name(self, bad: Any) -> None:
        with pytest.raises(BadEnvelope):
            read(Source.CLERK, {"type": bad}, svix_id="m")
        with pytest.raises(BadEnvelope):
            read(Source.STRIPE, {"id": "evt_1", "type": bad})

    def test_are_those_whose_id_is_too_long(self) -> None:
        with pytest.raises(BadEnvelope):
            read(Source.CLERK, {"type": "user.created"}, svix_id="m" * 256)
        with pytest.raises(BadEnvelope):
            read(Source.GITHUB, {}, x_github_event="push", x_github_delivery="g" * 256)

    @looped("bad", [True, "1", -1, 1e300, 10**30, float("nan"), None, {}])
    def test_but_a_time_that_is_none_is_left_out(self, bad: Any) -> None:
        assert read(Source.JIRA, {"webhookEvent": "x", "timestamp": bad}).occurred_at is None


class TestStoredHeaders:
    def test_name_those_that_hold_secrets_and_mask_them(self) -> None:
        given = {
            "authorization": "Bearer x", "cookie": "c", "x-hub-signature-256": "s", "stripe-signature": "s",
            "svix-signature": "s", "webhook-signature": "s", "x-my-token": "t", "x-client-secret": "s",
            "user-agent": "u", "svix-id": "m",
        }  # fmt: skip
        stored = requests.redacted(given)
        assert set(stored) == set(given)
        assert {name for name, value in stored.items() if value != requests.MASKED} == {"user-agent", "svix-id"}
