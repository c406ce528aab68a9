"""`chat` without a language model: composes a text from the prompt and streams it word by word."""

from __future__ import annotations

import asyncio
import random
import re
from typing import Any

from jobfarm_worker.handlers.demo_text import compose
from jobfarm_worker.handlers.payloads import messages_of
from jobfarm_worker.job import Job
from jobfarm_worker.registry import Handler

NOTICE = "(demonstrator: no language model is configured) "
PACE_S = 0.07  # a word; about a hundred of them make some eight seconds
TOKEN = re.compile(r"\S+\s*")


def handler(*, pace_s: float = PACE_S) -> Handler:
    """A handler for the same payloads as `chat`; the same job gets the same text at every attempt.

    Result: `{"text", "model": "demonstrator", "finish_reason": "stop"}`.
    """

    async def chat(job: Job) -> dict[str, Any]:
        prompt = latest_question(messages_of(job.payload))
        text = NOTICE + compose(prompt, rng=random.Random(f"{job.id}:{prompt}"))  # noqa: S311 - a seed, no secret
        tokens = TOKEN.findall(text)
        for number, token in enumerate(tokens, start=1):
            job.write(token)
            job.progress(number / len(tokens), "Demonstrator: composing")
            await asyncio.sleep(pace_s)
        return {"text": text, "model": "demonstrator", "finish_reason": "stop"}

    return chat


def latest_question(messages: list[dict[str, Any]]) -> str:
    """The last message of the user; content may also be a list of parts, as OpenAI has it."""
    texts = [message["content"] for message in messages if message["role"] == "user"] or [""]
    if isinstance(texts[-1], str):
        return texts[-1]
    parts = [part.get("text", "") for part in texts[-1] if isinstance(part, dict)]
    return " ".join(map(str, parts))
