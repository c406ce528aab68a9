"""The sandboxes' events: what they write, what they do not copy, and how they read."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from tests.webhook_samples import RECEIVED, all_stored, changed, fields, line, lines, report, routed, stored, written
from webhooks.errors import BadPayload
from webhooks.models import Activity, SandboxSession, SandboxTelemetry
from webhooks.models.resources import SandboxRun, SandboxToolUse

pytestmark = pytest.mark.django_db

SESSION = "5b7c0e0a-6a0f-4a53-9a5e-0c0a0a51d9c4"
BEFORE = "sandbox-hook-events/PreToolUse.3.json"
AFTER = "sandbox-hook-events/PostToolUse.3.json"
FAILED = "sandbox-completion/sandbox.session.failed.1.json"
FETCH = "sandbox-tail-telemetry/fetch.3.json"


def test_a_batch_of_telemetry_of_more_than_ten_thousand_is_rejected() -> None:
    """Four megabytes of empty invocations would be two million rows in one transaction, in front of all others."""
    with pytest.raises(BadPayload, match="items: at most 10,000 of them, got 10,001"):
        report(FETCH, body={"items": [{}] * 10_001})
    assert not SandboxTelemetry.objects.exists()


class TestSessions:
    def test_are_told_part_by_part(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        with django_assert_num_queries(2):  # the session, the line
            report("sandbox-hook-events/SessionStart.2.json", occurred_at=RECEIVED)
        report("sandbox-hook-events/Stop.2.json", occurred_at=RECEIVED + timedelta(minutes=1))
        session = SandboxSession.objects.get()
        assert (session.external_id, session.model, session.folder) == (SESSION, "claude-sonnet-5", "/workspace/shop")
        assert (session.phase, session.reason, session.sandbox) == ("idle", "", "")
        assert (session.first_seen_at, session.last_seen_at) == (RECEIVED, RECEIVED + timedelta(minutes=1))
        assert line() == (f"an agent started session {SESSION}", "", f"sandboxsession {SESSION}")

    def test_know_the_sandbox_whose_token_they_came_with(self) -> None:
        report("sandbox-hook-events/SessionEnd.1.json", sandbox="sbx_1")
        assert SandboxSession.objects.values_list("sandbox", "phase", "reason").get() == ("sbx_1", "ended", "other")
        assert line()[0] == "sandbox sbx_1 ended session sess_abc123def456 (other)"

    @pytest.mark.parametrize("first", ["sbx_1", None])
    def test_are_those_of_the_first_sandbox_that_tells_of_them(self, first: str | None) -> None:
        """Else any sandbox could end the session of another, or write into it. Signed events speak for all."""
        assert report("sandbox-hook-events/SessionStart.2.json", sandbox=first) is None
        later = RECEIVED + timedelta(hours=1)
        for name in ("Stop.2", "SessionEnd.1", "Notification.1", "PreToolUse.1"):
            file = f"sandbox-hook-events/{name}.json"
            body = changed(file, session_id=SESSION)
            foreign = report(file, sandbox="sbx_2", occurred_at=later, body=body)
            assert foreign == "The session is that of another sandbox."
        assert SandboxSession.objects.values_list("sandbox", "phase").get() == (first or "", "started")
        assert not SandboxToolUse.objects.exists()
        assert line()[0].endswith(f"started session {SESSION}")
        ended = changed("sandbox-hook-events/SessionEnd.1.json", session_id=SESSION)
        assert report("sandbox-hook-events/SessionEnd.1.json", occurred_at=later, body=ended) is None
        assert SandboxSession.objects.get().phase == "ended"

    def test_that_ended_are_not_woken_by_an_older_event(self) -> None:
        report("sandbox-hook-events/SessionEnd.1.json", occurred_at=RECEIVED)
        report("sandbox-hook-events/UserPromptSubmit.1.json", occurred_at=RECEIVED)
        report("sandbox-hook-events/Stop.1.json", occurred_at=RECEIVED - timedelta(seconds=1))
        assert SandboxSession.objects.get().phase == "ended"

    def test_ask_for_somebody(self) -> None:
        report("sandbox-hook-events/Notification.1.json")
        assert SandboxSession.objects.get().phase == "asking"
        assert line()[0] == "an agent asks for somebody in session sess_abc123def456"

    def test_copy_no_prompt_no_answer_no_command_and_no_output(self) -> None:
        for sample in routed():
            if sample.source == "sandbox_hooks":
                report(sample.file)
        everything = repr(written())
        for text in (
            "Express.js",
            "all tests pass",
            "Found 3 call sites",
            "npm test",
            "14 tests",
            "return total",
            "/etc/hosts",
        ):
            assert text not in everything


class TestToolUses:
    @pytest.mark.parametrize("order", [(BEFORE, AFTER), (AFTER, BEFORE)])
    def test_are_one_row_before_and_after(self, order: tuple[str, str]) -> None:
        for n, file in enumerate(order):
            report(file, occurred_at=RECEIVED + timedelta(seconds=n))
        use = stored(SandboxToolUse)
        assert (use.external_id, use.tool, use.subject) == ("toolu_01QfX2bTnG7Zk9mV4sLcR8aW", "Bash", "Run test suite")
        assert (use.outcome, use.duration_s) == ("success", 2.417)
        assert use.parent == SESSION
        assert not Activity.objects.exists()

    def test_are_those_of_the_sandbox_whose_token_vouches_for_the_id(self) -> None:
        """The id of one may be given by another, in a session of its own."""
        report(BEFORE, sandbox="sbx_1")
        report(AFTER, sandbox="sbx_2", body=changed(AFTER, session_id="another"))
        assert {use.outcome for use in all_stored(SandboxToolUse)} == {"begun", "success"}
        report(AFTER, sandbox="sbx_1")
        assert {use.outcome for use in all_stored(SandboxToolUse)} == {"success"}

    def test_that_have_only_begun_say_so(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        with django_assert_num_queries(2):  # the session, the use
            report(BEFORE)
        assert fields(SandboxToolUse, "outcome", "duration_s") == ("begun", None)

    def test_of_older_agents_meet_by_what_they_do(self) -> None:
        report("sandbox-hook-events/PostToolUse.1.json")
        report("sandbox-hook-events/PreToolUse.1.json")
        assert fields(SandboxToolUse, "outcome", "subject") == ("success", "/Users/user/project/src/main.py")

    @pytest.mark.parametrize(
        ("file", "text"),
        [
            ("PostToolUseFailure.1", f"an agent failed at Bash Lint in session {SESSION}"),
            ("PostToolUse.2", "an agent failed at Write /etc/protected_file.txt in session sess_abc123def456"),
        ],
    )
    def test_that_failed_are_told(self, file: str, text: str) -> None:
        report(f"sandbox-hook-events/{file}.json")
        assert stored(SandboxToolUse).outcome == "failed"
        assert line()[0] == text


class TestRuns:
    def test_are_kept(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        with django_assert_num_queries(3):  # the session, the run, the line
            report(FAILED)
        run = stored(SandboxRun)
        assert (run.job, run.attempt, run.status, run.outcome) == (
            "a0b1c2d3-1111-4222-8333-444455556666", 1, "failed", "error_max_turns",
        )  # fmt: skip
        assert (run.exit_code, run.turns, run.cost_usd, run.output_tokens) == (1, 18, 0.84213, 15877)
        assert run.error == "error_max_turns: Reached maximum number of turns (40)"
        assert (run.branch, run.commits, run.duration_s) == ("agent/FUL-482", 2, 412.345)
        assert (run.parent, SandboxSession.objects.get().sandbox) == (SESSION, "sbx_01K9XQ3V7R")
        assert line()[0] == "sandbox sbx_01K9XQ3V7R failed job a0b1c2d3-1111-4222-8333-444455556666, attempt 1"

    @pytest.mark.parametrize("order", [("10:00", "10:01"), ("10:01", "10:00")])
    def test_end_once_as_their_first_end_says(self, order: tuple[str, str]) -> None:
        """A time-out and a cancel may race: by the sender's clock one was first, whichever came first here."""
        statuses = {"10:00": "timed_out", "10:01": "canceled"}
        for minute in order:
            body = changed(FAILED, timestamp=f"2026-11-18T{minute}:00Z", data__status=statuses[minute])
            report(FAILED, body=body)
        assert stored(SandboxRun).status == "timed_out"

    def test_of_another_attempt_are_others(self) -> None:
        report(FAILED)
        report(FAILED, body=changed(FAILED, data__attempt=2))
        assert SandboxRun.objects.count() == 2

    @pytest.mark.parametrize(
        ("changes", "kept"),
        [
            ({"data__result": None, "data__git": None, "data__error": None}, (None, None, "", "")),
            ({"data__result__total_cost_usd": 1e300}, (18, None, "agent/FUL-482", "error_max_turns: Reached")),
            ({"data__result__total_cost_usd": 2}, (18, 2, "agent/FUL-482", "error_max_turns: Reached")),
        ],
    )
    def test_may_say_less_or_nonsense(self, changes: dict[str, Any], kept: tuple[Any, ...]) -> None:
        report(FAILED, body=changed(FAILED, **changes))
        run = stored(SandboxRun)
        assert (run.turns, run.cost_usd, run.branch, run.error[:24]) == kept

    def test_of_a_century_are_cut_to_one(self) -> None:
        report(FAILED, body=changed(FAILED, data__duration_ms=2**62))
        assert stored(SandboxRun).duration_s == 3 * 10**9


class TestTelemetry:
    def test_is_kept_by_invocation(self) -> None:
        report(FETCH)
        kept = SandboxTelemetry.objects.get()
        assert (kept.external_id, kept.script, kept.kind, kept.status) == (
            f"{FETCH}/0",
            "sandbox-gateway",
            "fetch",
            500,
        )
        assert (kept.subject, kept.outcome) == ("GET sandbox.example.workers.dev/run", "exception")
        assert (kept.cpu_s, kept.wall_s, kept.logs, kept.errors) == (0.003, 0.041, 1, 1)
        assert kept.error == "TypeError: Cannot read properties of undefined (reading 'id')"
        assert kept.at == datetime(2026, 11, 18, 11, 6, 41, tzinfo=UTC)
        assert line()[0] == "sandbox-gateway ended with exception fetch GET sandbox.example.workers.dev/run"

    def test_of_one_batch_is_one_statement(self, django_assert_num_queries: DjangoAssertNumQueries) -> None:
        items = changed("sandbox-tail-telemetry/queue.1.json")["items"] * 200
        with django_assert_num_queries(1):
            report(FETCH, body={"items": items})
        assert SandboxTelemetry.objects.count() == 200

    def test_of_a_replay_is_there_already(self) -> None:
        report("sandbox-tail-telemetry/batch.1.json")
        report("sandbox-tail-telemetry/batch.1.json")
        assert SandboxTelemetry.objects.count() == 2
        assert lines() == ["tenant-42 ended with exceededCpu fetch GET sandbox.example.workers.dev/a"]

    def test_of_a_gateway_that_always_fails_is_ten_lines(self) -> None:
        report(FETCH, body={"items": changed(FETCH)["items"] * 25})
        assert (SandboxTelemetry.objects.count(), Activity.objects.count()) == (25, 10)

    def test_of_nothing_is_nothing(self) -> None:
        report(FETCH, body={"items": []})
        assert not SandboxTelemetry.objects.exists()

    def test_without_a_moment_has_that_of_its_delivery(self) -> None:
        report(FETCH, body=changed(FETCH, items=[{"outcome": "ok", "event": None}]), occurred_at=RECEIVED)
        assert SandboxTelemetry.objects.values_list("at", "kind").get() == (RECEIVED, "unknown")
