"""Read the payloads of the handlers that come along, and say what is wrong with one that cannot be used."""

import re
from typing import Any

from jobfarm_worker.errors import Failed


def prompt_of(payload: Any) -> str:
    """The prompt of an image job; raises Failed, for good, when there is none."""
    prompt = payload.get("prompt") if isinstance(payload, dict) else None
    if not isinstance(prompt, str) or not prompt.strip():
        raise Failed('The payload needs a text: {"prompt": "..."}.', retryable=False)
    return prompt.strip()


def messages_of(payload: Any) -> list[dict[str, Any]]:
    """The messages of a chat job, from `messages` or `prompt`; raises Failed, for good, without any."""
    messages = payload.get("messages") if isinstance(payload, dict) else None
    if messages is None:
        return [{"role": "user", "content": prompt_of(payload)}]
    if not isinstance(messages, list) or not messages or not all(map(_is_message, messages)):
        raise Failed('"messages" is a list of {"role": "user", "content": "..."}.', retryable=False)
    return messages


def headers_of(payload: Any) -> dict[str, str]:
    """The headers of a call that the model server gets: whoever submits a payload writes no others."""
    headers = payload.get("headers") if isinstance(payload, dict) else None
    known = headers if isinstance(headers, dict) else {}
    named = {name: known.get(name) for name in ("anthropic-version", "anthropic-beta")}
    return {name: value for name, value in named.items() if isinstance(value, str) and value.isprintable()}


def _is_message(message: object) -> bool:
    return isinstance(message, dict) and isinstance(message.get("role"), str) and bool(message.get("content"))


def call_of(payload: Any, *, queue: str = "") -> tuple[str, dict[str, Any]]:
    """Path and body of a call of OpenAI's API, for the model that the queue of its job says where several may answer
    it; raises Failed, for good, when it is none."""
    path, body = (payload.get("path"), payload.get("body")) if isinstance(payload, dict) else (None, None)
    is_path = isinstance(path, str) and re.fullmatch(r"[a-z]+(/[a-z_]+)*", path) is not None
    if not is_path or not isinstance(body, dict):
        raise Failed('The payload is {"path": "chat/completions", "body": {...}}.', retryable=False)
    models = payload.get("models")
    model = models.get(queue) if isinstance(models, dict) else None
    return str(path), {**body, "model": model} if model else body
