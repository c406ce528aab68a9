"""The sandboxes: what agents do, how their runs end, and how their gateway fares.

Hooks have no time of their own: theirs is that of their signature, in whole seconds, and within one the phase decides.
What follows a use of a tool replaces what came before it, whatever their times. Of a run the first end stays.

A sandbox's bearer token speaks for that sandbox alone: a session that another one reported is not its own, and ids
that it gives are kept apart from those of others.
"""

from datetime import datetime

from webhooks.domain import calls
from webhooks.domain.payloads import sandbox
from webhooks.domain.staleness import Version
from webhooks.errors import BadPayload
from webhooks.handlers.activity import ActivityEntry, emit
from webhooks.handlers.registry import Event, handles
from webhooks.models import SandboxRun, SandboxSession, SandboxTelemetry, SandboxToolUse
from webhooks.queries.upserts import SessionEvent, measure, upsert, upsert_session

_HOOKS, _COMPLETION, _TELEMETRY = "sandbox_hooks", "sandbox_completion", "sandbox_telemetry"
_Phase = SandboxSession.Phase
_RANKS = {_Phase.STARTED: 0, _Phase.WORKING: 1, _Phase.ASKING: 2, _Phase.IDLE: 3, _Phase.ENDED: 4}
_PHASES = {
    "SessionStart": _Phase.STARTED,
    "Stop": _Phase.IDLE,
    "StopFailure": _Phase.IDLE,
    "PermissionRequest": _Phase.ASKING,
    "SessionEnd": _Phase.ENDED,
}  # every other hook says that the agent works
_SESSION_VERBS = {"SessionStart": "started", "SessionEnd": "ended", "StopFailure": "could not go on in"}
_ENDS = ("completed", "failed", "canceled", "timed_out")
_ANOTHERS = "The session is that of another sandbox."
_MOST_ENTRIES = 10  # of one batch of telemetry: a gateway that fails at every request would bury all else


@handles(
    _HOOKS, "SessionStart", "SessionEnd", "UserPromptSubmit", "Stop", "StopFailure", "SubagentStart", "SubagentStop",
    "PreCompact", "PostCompact", "PermissionRequest",
)  # fmt: skip
def session(event: Event) -> str | None:
    """A session began, went on or ended. Prompts and answers are not copied."""
    hook = event.read(sandbox.Hook)
    if not _update_session(event, hook, _PHASES.get(event.type, _Phase.WORKING)):
        return _ANOTHERS
    if event.type in _SESSION_VERBS:
        emit(event, _about(event, hook.session_id, _SESSION_VERBS[event.type], "session", why=hook.reason))
    return None


@handles(_HOOKS, "Notification")
def notification(event: Event) -> str | None:
    """The agent wants somebody. Why is not copied: the message may quote a command."""
    hook = event.read(sandbox.Hook)
    if not _update_session(event, hook, _Phase.ASKING):
        return _ANOTHERS
    emit(event, _about(event, hook.session_id, "asks for somebody in", "session"))
    return None


@handles(_HOOKS, "PreToolUse", "PostToolUse", "PostToolUseFailure")
def tool_use(event: Event) -> str | None:
    """A tool is about to be used, or was. Only a failure is worth a line."""
    hook = event.read(sandbox.ToolUse)
    if not (hook.tool_use_id or hook.tool_name):
        raise BadPayload(field="tool_use_id", reason="field required, as there is no tool_name either")
    if not _update_session(event, hook, _Phase.WORKING):
        return _ANOTHERS
    is_over = event.type != "PreToolUse"
    has_failed = event.type == "PostToolUseFailure" or bool(hook.failure)
    subject = calls.subject(hook.tool_input)
    upsert(
        SandboxToolUse,
        calls.identity(
            hook.session_id, hook.tool_name, hook.tool_input, use_id=hook.tool_use_id or "", sandbox=event.sandbox
        ),
        Version(at=event.occurred_at, is_fallback=not is_over),
        parent=hook.session_id,
        subject=hook.sent("tool_input", subject),
        outcome=("failed" if has_failed else "success") if is_over else "begun",
        duration_s=hook.sent("duration_ms", _seconds(hook.duration_ms)),
        **hook.columns(tool="tool_name", agent="agent_type"),
    )
    if is_over and has_failed:
        emit(
            event,
            _about(
                event, hook.session_id, "failed at", f"{hook.tool_name or 'a tool'} {subject}".strip() + " in session"
            ),
        )
    return None


@handles(_COMPLETION, *(f"sandbox.session.{end}" for end in _ENDS))
def completion(event: Event) -> None:
    """A run ended. If it had ended before, by its sender's clock, that stays: a time-out and its cancel may race."""
    completion = event.read(sandbox.Completion)
    run = completion.data
    at = completion.timestamp or event.occurred_at
    if run.session_id:
        upsert_session(SessionEvent(session_id=run.session_id, at=at, sandbox=run.sandbox_id or ""))
    status = run.status or event.type.rpartition(".")[2]
    _upsert_run(completion, status, at)
    entry = ActivityEntry(
        actor=f"sandbox {run.sandbox_id}" if run.sandbox_id else "a sandbox",
        verb=status.replace("_", " "),
        object=f"job {run.job_id}, attempt {run.attempt}",
        at=at,
        kind="sandboxrun",
        resource=_run_id(run),
    )
    emit(event, entry)


@handles(_TELEMETRY, "batch")
def telemetry(event: Event) -> None:
    """The invocations of a gateway, in one statement. Those that went wrong are worth a line."""
    batch = event.read(sandbox.Batch)
    rows = [_measured(event, n, invocation) for n, invocation in enumerate(batch.items)]
    measure(rows)
    wrong = [row for row in rows if row.outcome not in {"ok", "canceled", ""}]
    emit(event, *map(_failure_entry, wrong[:_MOST_ENTRIES]))


def _update_session(event: Event, hook: sandbox.Hook, phase: SandboxSession.Phase) -> bool:
    return upsert_session(
        SessionEvent(
            session_id=hook.session_id,
            at=event.occurred_at,
            phase=phase,
            phase_rank=_RANKS[phase],
            reason=hook.reason if phase is _Phase.ENDED else "",
            model=hook.model,
            folder=hook.cwd,
            sandbox=event.sandbox or "",
            bearer=event.sandbox,
        )
    )


def _upsert_run(completion: sandbox.Completion, status: str, at: datetime) -> None:
    """An end is one report and no state that is observed again: what it leaves out, another end does not fill in, and
    of two reports of one moment the one that says more stays."""
    run = completion.data
    result, git = run.result or sandbox.Result(), run.git or sandbox.Git()
    usage, error = result.usage or sandbox.Usage(), run.error or sandbox.Failure()
    fields_sent = sum(len(part.model_fields_set) for part in (run, result, git, usage, error))
    upsert(
        SandboxRun,
        _run_id(run),
        Version(at=at, number=fields_sent, first_wins=True, is_fallback=completion.timestamp is None),
        parent=run.session_id,
        job=run.job_id,
        attempt=run.attempt,
        sandbox=run.sandbox_id or "",
        status=status,
        outcome=result.subtype,
        exit_code=run.exit_code,
        signal=run.signal,
        error=": ".join(part for part in (error.code, error.message) if part),
        turns=result.num_turns,
        cost_usd=_dollars(result.total_cost_usd),
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        branch=git.branch,
        head_sha=git.head_sha,
        commits=git.commits,
        duration_s=_seconds(run.duration_ms),
        started_at=run.started_at,
        finished_at=run.finished_at,
    )


def _measured(event: Event, n: int, invocation: sandbox.Invocation) -> SandboxTelemetry:
    caller = calls.caller(invocation.event)
    first = invocation.exceptions[0] if invocation.exceptions else sandbox.Raised()
    return SandboxTelemetry(
        external_id=f"{event.delivery_id[:230]}/{n}",
        at=invocation.eventTimestamp or event.occurred_at,
        script=invocation.scriptName,
        kind=caller.kind,
        subject=caller.subject,
        status=caller.status,
        outcome=invocation.outcome,
        cpu_s=invocation.cpuTime / 1000 if invocation.cpuTime is not None else None,
        wall_s=invocation.wallTime / 1000 if invocation.wallTime is not None else None,
        logs=len(invocation.logs),
        errors=len(invocation.exceptions),
        error=": ".join(part for part in (first.name, first.message) if part),
    )


def _failure_entry(row: SandboxTelemetry) -> ActivityEntry:
    call = f"{row.kind} {row.subject}".strip()
    return ActivityEntry(
        actor=row.script, verb=f"ended with {row.outcome}", object=call, at=row.at,
        kind="sandboxtelemetry", resource=row.external_id,
    )  # fmt: skip


def _about(event: Event, session_id: str, verb: str, target: str, *, why: str = "") -> ActivityEntry:
    name = f"{target} {session_id}"
    return ActivityEntry(
        actor=f"sandbox {event.sandbox}" if event.sandbox else "an agent",
        verb=verb,
        object=f"{name} ({why})" if why else name,
        kind="sandboxsession",
        resource=session_id,
    )


def _run_id(run: sandbox.Run) -> str:
    return f"{run.job_id}/{run.attempt}"


def _seconds(milliseconds: int | None) -> float | None:
    # Whatever is longer than a century is a mistake.
    return min(milliseconds, 3 * 10**12) / 1000 if milliseconds is not None else None


def _dollars(amount: float | None) -> float | None:
    return round(amount, 6) if amount is not None and abs(amount) < 10**6 else None
