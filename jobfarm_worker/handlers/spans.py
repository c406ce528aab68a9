"""What OpenTelemetry's conventions want said of a call of a model (`gen_ai.*`), on the span of its attempt.

Names and numbers, never a word of a prompt or an answer. https://opentelemetry.io/docs/specs/semconv/gen-ai/
"""

from collections.abc import Mapping
from typing import Any, Final

from jobfarm_worker import tracing
from jobfarm_worker.handlers.chunks import objects

_OPERATIONS: Final = {
    "chat/completions": "chat", "responses": "chat", "messages": "chat", "completions": "text_completion",
    "embeddings": "embeddings", "images/generations": "generate_content",
}  # fmt: skip
# By the names that the three dialects have for them.
_USAGE: Final = {
    "gen_ai.usage.input_tokens": ("prompt_tokens", "input_tokens"),
    "gen_ai.usage.output_tokens": ("completion_tokens", "output_tokens"),
}


def note_call(path: str, body: Mapping[str, Any]) -> None:
    """Say what is asked of which model. The server speaks OpenAI's API, whoever made it."""
    tracing.describe({
        "gen_ai.operation.name": _OPERATIONS.get(path, path), "gen_ai.provider.name": "openai",
        "gen_ai.request.model": body.get("model"), "gen_ai.request.stream": bool(body.get("stream")) or None,
        "gen_ai.request.max_tokens": body.get("max_completion_tokens", body.get("max_tokens")),
        "gen_ai.request.temperature": body.get("temperature"),
    })  # fmt: skip


def note_first_token(seconds: float) -> None:
    """Say how long the model took to its first token."""
    tracing.describe({"gen_ai.response.time_to_first_chunk": seconds})


def note_answer(answer: Any) -> None:
    """Say who answered, how it ended, and what it took; nothing of what is no answer of a known form."""
    if not isinstance(answer, dict):
        return
    usage = answer["usage"] if isinstance(answer.get("usage"), dict) else {}
    counts = {name: next((usage[one] for one in ones if one in usage), None) for name, ones in _USAGE.items()}
    reasons = [choice.get("finish_reason") for choice in objects(answer.get("choices"))] or [answer.get("stop_reason")]
    ends = tuple(str(reason) for reason in reasons if reason)
    tracing.describe({
        "gen_ai.response.model": answer.get("model"), "gen_ai.response.id": answer.get("id"),
        "gen_ai.response.finish_reasons": ends or None, **counts,
    })  # fmt: skip
