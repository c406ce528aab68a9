"""The sandboxes: the agent's hooks (no id and no time in the body), the end of a run, and telemetry of its gateway.

Needed is which session or run it is.
"""

from typing import Any

from webhooks.domain.payloads.base import Amount, Id, Long, Many, Maybe, Millis, Moment, Number, Payload, Short


class Hook(Payload):
    """What every hook event has."""

    session_id: Id
    cwd: Maybe = ""
    model: Maybe = ""  # of SessionStart
    reason: Maybe = ""  # of SessionEnd


class ToolUse(Hook):
    """PreToolUse, PostToolUse, PostToolUseFailure. An older agent gives no id."""

    tool_name: Short = ""
    tool_input: dict[str, Any] = {}
    tool_use_id: Id | None = None
    agent_type: Maybe = ""
    duration_ms: Number | None = None
    error: Long | None = None
    tool_response: Any = None

    @property
    def failure(self) -> str:
        """Why it failed, "" if it did not: in the older shape a response may say so itself."""
        if self.error is not None:
            return self.error
        if isinstance(self.tool_response, dict) and self.tool_response.get("success") is False:
            return str(self.tool_response.get("error") or "failed")[:2000]
        return ""


class Usage(Payload):
    """What a run took of the model."""

    input_tokens: Number = 0
    output_tokens: Number = 0


class Result(Payload):
    """What the agent says of its run."""

    subtype: Maybe = ""
    num_turns: Number | None = None
    total_cost_usd: float | None = None
    usage: Usage | None = None


class Failure(Payload):
    """Why a run did not end well."""

    code: Maybe = ""
    message: Long = ""


class Git(Payload):
    """What a run left in its repository."""

    branch: Maybe = ""
    head_sha: Maybe = ""
    commits: Number = 0


class Run(Payload):
    """One attempt of one job in a sandbox, at its end."""

    job_id: Id
    session_id: Id | None = None
    sandbox_id: Id | None = None
    attempt: Number
    status: Short = ""
    exit_code: Amount | None = None
    signal: Maybe = ""
    started_at: Moment | None = None
    finished_at: Moment | None = None
    duration_ms: Number | None = None
    result: Result | None = None
    error: Failure | None = None
    git: Git | None = None


class Completion(Payload):
    """sandbox.session.*"""

    timestamp: Moment | None = None
    data: Run


class Raised(Payload):
    """An exception that an invocation raised."""

    name: Maybe = ""
    message: Long = ""


class Invocation(Payload):
    """One invocation of a gateway, as its tail worker reports it."""

    event: dict[str, Any] | None = None
    eventTimestamp: Millis | None = None  # noqa: N815 (the sender's names)
    scriptName: Maybe = ""  # noqa: N815
    outcome: Maybe = ""
    logs: Many[Any] = []
    exceptions: Many[Raised] = []
    cpuTime: float | None = None  # noqa: N815
    wallTime: float | None = None  # noqa: N815


class Batch(Payload):
    """The invocations of one delivery."""

    items: list[Invocation]
