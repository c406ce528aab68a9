"""The sandboxes: what agents do, how their runs end, and how their gateway fares.

Hooks have no time of their own: theirs is that of their signature, in whole seconds, and within one the phase decides.
What follows a use of a tool replaces what came before it, whatever their times. Of a run the first end stays.

A sandbox's bearer token speaks for that sandbox alone: a session that another one reported is not its own, and ids
that it gives are kept apart from those of others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from webhooks.domain import deliveries, parts
from webhooks.domain.parts import ANY, COUNT, ID, LONG, MEASURE, NUMBER, OBJECT, Kind, Part, Version, fields
from webhooks.errors import BadPayload
from webhooks.handlers.activity import Line, emit
from webhooks.handlers.registry import Event, handles
from webhooks.models.resources import SandboxRun, SandboxSession, SandboxTelemetry, SandboxToolUse
from webhooks.queries.results import upsert, upsert_session

_HOOKS, _COMPLETION, _TELEMETRY = "sandbox_hooks", "sandbox_completion", "sandbox_telemetry"
_Phase = SandboxSession.Phase
_RANKS = {_Phase.STARTED: 0, _Phase.WORKING: 1, _Phase.ASKING: 2, _Phase.IDLE: 3, _Phase.ENDED: 4}
_PHASES = {
    "SessionStart": _Phase.STARTED,
    "Stop": _Phase.IDLE,
    "StopFailure": _Phase.IDLE,
    "PermissionRequest": _Phase.ASKING,
    "Notification": _Phase.ASKING,
    "SessionEnd": _Phase.ENDED,
}  # every other hook says that the agent works
_SESSION_VERBS = {
    "SessionStart": "started",
    "SessionEnd": "ended",
    "StopFailure": "could not go on in",
    "Notification": "asks for somebody in",
}
_ENDS = ("completed", "failed", "canceled", "timed_out")
_ANOTHERS = "The session is that of another sandbox."
_MOST_ITEMS = 10_000  # in one batch: 4 MiB of empty ones are two million rows
_MOST_LINES = 10  # of one batch of telemetry: a gateway that fails at every request would fill the list


def _dollars(value: Any) -> float:
    if abs(amount := MEASURE.read(value)) >= 10**6:
        raise ValueError("should be a price")
    return round(amount, 6)


_SECONDS = Kind(lambda value: min(MEASURE.read(value), 3 * 10**12) / 1000)  # longer than a century is a mistake
_TOOL_USE = fields(text="tool=tool_name agent=agent_type") | {
    "subject": ("tool_input", Kind(lambda value: subject_of(OBJECT.read(value)), null="")),
    "duration_s": ("duration_ms", _SECONDS),
}
_RUN = fields(
    text="status outcome=result.subtype signal branch=git.branch head_sha=git.head_sha",
    id="parent=session_id job=job_id sandbox=sandbox_id",
    number="attempt turns=result.num_turns input_tokens=result.usage.input_tokens commits=git.commits"
    " output_tokens=result.usage.output_tokens",
    amount="exit_code",
    moment="started_at finished_at",
) | {"cost_usd": ("result.total_cost_usd", Kind(_dollars)), "duration_s": ("duration_ms", _SECONDS)}
_ERROR = fields(text="code", long="message")


@handles(
    _HOOKS, "SessionStart", "SessionEnd", "UserPromptSubmit", "Stop", "StopFailure", "SubagentStart", "SubagentStop",
    "PreCompact", "PostCompact", "PermissionRequest", "Notification",
)  # fmt: skip
def session(event: Event) -> str | None:
    """A session began, went on, wants somebody, or ended. Prompts, answers and messages are not copied: they may quote
    a command."""
    hook = event.read()
    if not _update_session(event, hook, _PHASES.get(event.type, _Phase.WORKING)):
        return _ANOTHERS
    if event.type in _SESSION_VERBS:
        why = hook.text("reason")
        emit(event, _line(event, hook, _SESSION_VERBS[event.type], "session", f" ({why})" if why else ""))
    return None


@handles(_HOOKS, "PreToolUse", "PostToolUse", "PostToolUseFailure")
def tool_use(event: Event) -> str | None:
    """A tool is about to be used, or was. Only a failure is worth a line. An older agent gives no id."""
    hook = event.read()
    use_id, tool, tool_input = hook.get("tool_use_id", ID) or "", hook.text("tool_name"), hook.get("tool_input", OBJECT)
    session_id = hook.need("session_id", ID)
    if not (use_id or tool):
        raise BadPayload(field="tool_use_id", reason="field required, as there is no tool_name either")
    if not _update_session(event, hook, _Phase.WORKING):
        return _ANOTHERS
    is_over = event.type != "PreToolUse"
    has_failed = event.type == "PostToolUseFailure" or bool(_failure(hook))
    upsert(
        SandboxToolUse,
        identity_of_use(session_id, tool, tool_input or {}, use_id=use_id, sandbox=event.sandbox),
        Version(at=event.occurred_at, is_fallback=not is_over),
        parent=session_id,
        outcome=("failed" if has_failed else "success") if is_over else "begun",
        **hook.document(_TOOL_USE),
    )
    if is_over and has_failed:
        target = f"{tool or 'a tool'} {subject_of(tool_input or {})}".strip() + " in session"
        emit(event, _line(event, hook, "failed at", target))
    return None


@handles(_COMPLETION, *(f"sandbox.session.{end}" for end in _ENDS))
def completion(event: Event) -> None:
    """A run ended. If it had ended before, by its sender's clock, that stays: a time-out and its cancel may race."""
    body = event.read()
    run = body.need_part("data")
    job, attempt = run.need("job_id", ID), run.need("attempt", NUMBER)
    version = body.moment("timestamp")
    at, sandbox = version or event.occurred_at, run.get("sandbox_id", ID) or ""
    if session_id := run.get("session_id", ID):
        upsert_session(session_id, at, sandbox=sandbox)
    status = run.text("status") or event.action
    # An end is one report and no state that is observed again: what it leaves out, another end does not fill in, and
    # of two reports of one moment the one that says more stays.
    fields_sent, error = run.document(_RUN), run.part("error").document(_ERROR)
    upsert(
        SandboxRun,
        f"{job}/{attempt}",
        Version(at=at, number=len(fields_sent) + len(error), first_wins=True, is_fallback=version is None),
        **{**dict.fromkeys(_RUN), **fields_sent, "status": status, "error": ": ".join(filter(None, error.values()))},
    )
    target, about = f"job {job}, attempt {attempt}", (SandboxRun, f"{job}/{attempt}")
    actor = f"sandbox {sandbox}" if sandbox else "a sandbox"
    emit(event, Line(status.replace("_", " "), target, actor=actor, at=at, about=about))


@handles(_TELEMETRY, "batch")
def telemetry(event: Event) -> None:
    """The invocations of a gateway, in one statement. Those that went wrong are worth a line."""
    items = event.read().need_parts("items")
    if len(items) > _MOST_ITEMS:
        raise BadPayload(field="items", reason=f"at most {_MOST_ITEMS:,} of them, got {len(items):,}")
    rows = [_measured(event, n, invocation) for n, invocation in enumerate(items)]
    SandboxTelemetry.objects.bulk_create(rows, ignore_conflicts=True)
    wrong = [row for row in rows if row.outcome not in {"ok", "canceled", ""}]
    emit(event, *map(_failure_line, wrong[:_MOST_LINES]))


def _update_session(event: Event, hook: Part, phase: SandboxSession.Phase) -> bool:
    reason = hook.text("reason") if phase is _Phase.ENDED else ""
    return upsert_session(
        hook.need("session_id", ID), event.occurred_at, phase=phase, phase_rank=_RANKS[phase], reason=reason,
        model=hook.text("model"), folder=hook.text("cwd"), sandbox=event.sandbox or "", bearer=event.sandbox,
    )  # fmt: skip


def _failure(hook: Part) -> str:
    """Why a tool failed, "" if it did not: in the older shape a response may say so itself."""
    error, response = hook.get("error", LONG), hook.get("tool_response", ANY)
    if error is None and isinstance(response, dict) and response.get("success") is False:
        return str(response.get("error") or "failed")
    return error or ""


def _measured(event: Event, n: int, invocation: Part) -> SandboxTelemetry:
    caller = caller_of(invocation.get("event", OBJECT))
    first = invocation.first("exceptions")
    return SandboxTelemetry(
        external_id=f"{event.delivery_id[:230]}/{n}",
        at=invocation.moment("eventTimestamp") or event.occurred_at,
        script=invocation.text("scriptName"),
        kind=caller.kind,
        subject=caller.subject,
        status=caller.status,
        outcome=invocation.text("outcome"),
        cpu_s=invocation.get("cpuTime", _SECONDS),
        wall_s=invocation.get("wallTime", _SECONDS),
        logs=invocation.get("logs", COUNT) or 0,
        errors=invocation.get("exceptions", COUNT) or 0,
        error=": ".join(filter(None, (first.text("name"), first.get("message", LONG)))),
    )


def _failure_line(row: SandboxTelemetry) -> Line:
    about = SandboxTelemetry, row.external_id
    target = f"{row.kind} {row.subject}".strip()
    return Line(f"ended with {row.outcome}", target, actor=row.script, at=row.at, about=about)


def _line(event: Event, hook: Part, verb: str, target: str, why: str = "") -> Line:
    session_id = hook.need("session_id", ID)
    actor = f"sandbox {event.sandbox}" if event.sandbox else "an agent"
    return Line(verb, f"{target} {session_id}{why}", actor=actor, about=(SandboxSession, session_id))


_PLACES = ("file_path", "notebook_path", "path", "pattern", "subagent_type", "skill")
LONGEST = 255


def subject_of(tool_input: Mapping[str, Any]) -> str:
    """A file, a pattern, a host, or the agent's own description of a command; "" if there is nothing that may be shown.

    A command's text is not: it may hold a secret. Of an address the host is, as its path and query may hold one too."""
    for field in (*_PLACES, "description"):
        value = tool_input.get(field)
        if isinstance(value, str) and value:
            return value[:LONGEST]
    url = tool_input.get("url")
    return parts.host(url) if isinstance(url, str) else ""


def identity_of_use(
    session_id: str, tool: str, tool_input: Mapping[str, Any], *, use_id: str = "", sandbox: str | None = None
) -> str:
    """Under which id a use of a tool is kept: `use_id`; older agents send none, and the same call in the same
    session stands in for it. So what comes before and after a call still meet; two equal calls in one session are one
    row. What a sandbox's token vouches for is that sandbox's: the same id of two of them is two uses."""
    own = use_id or f"{session_id[:200]}/{parts.digest({'tool': tool, 'input': tool_input})}"
    return own if sandbox is None else deliveries.within(sandbox, own)


# The field that tells the kind, in the order asked: an alarm has a time too, but no cron.
_KINDS = (
    ("request", "fetch"),
    ("rpcMethod", "rpc"),
    ("cron", "scheduled"),
    ("scheduledTime", "alarm"),
    ("queue", "queue"),
    ("mailFrom", "email"),
    ("consumedEvents", "tail"),
    ("getWebSocketEvent", "websocket"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """What called: its kind, what of it may be shown, and the HTTP status it was answered with."""

    kind: str
    subject: str = ""
    status: int | None = None


def caller_of(event: Mapping[str, Any] | None) -> Caller:
    """The caller of an invocation. An unknown kind is "custom", none at all is "unknown"."""
    if event is None:
        return Caller(kind="unknown")
    kind = next((kind for field, kind in _KINDS if field in event), "custom")
    if kind == "fetch":
        return _fetch(event)
    field = {"rpc": "rpcMethod", "scheduled": "cron", "queue": "queue"}.get(kind, "")
    return Caller(kind=kind, subject=_text(event.get(field)))


def _fetch(event: Mapping[str, Any]) -> Caller:
    request, response = (
        part if isinstance(part := event.get(name), Mapping) else {} for name in ("request", "response")
    )
    status = response.get("status")
    is_status = isinstance(status, int) and 100 <= status <= 599
    method, place = _text(request.get("method")), _place(request.get("url"))
    return Caller(kind="fetch", subject=f"{method} {place}".strip()[:LONGEST], status=status if is_status else None)


def _place(url: Any) -> str:
    """Host and path: a query may hold a secret."""
    try:
        split = urlsplit(_text(url))
    except ValueError:
        return ""
    return f"{split.netloc.rpartition('@')[2]}{split.path}"


def _text(value: Any) -> str:
    return value[:LONGEST] if isinstance(value, str) else ""
