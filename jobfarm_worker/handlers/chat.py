"""`chat`: a streamed answer of any OpenAI-compatible server (Ollama, vLLM, llama.cpp and others)."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import openai

from jobfarm_worker.errors import Failed
from jobfarm_worker.handlers import servers
from jobfarm_worker.handlers.payloads import messages_of
from jobfarm_worker.handlers.retrying import DELAYS_S, BrokenStreamError, retried
from jobfarm_worker.job import Job
from jobfarm_worker.registry import Handler

DEFAULT_MODEL = "llama3.2"
EXTRAS = ("temperature", "max_tokens", "top_p", "seed")  # of the payload, handed on as they are


@dataclass(slots=True, kw_only=True)
class Answer:
    """What has come of one answer so far."""

    text: str = ""
    model: str = ""
    finish_reason: str = ""


def handler(*, url: str, environ: Mapping[str, str], delays_s: Sequence[float] = DELAYS_S) -> Handler:
    """A handler that asks the server at `url` (its `/v1` address).

    `JOBFARM_LLM_KEY` or `OPENAI_API_KEY` is the key, if it needs one; `JOBFARM_LLM_MODEL` the model of
    payloads that name none. Payload: `{"prompt": str}` or `{"messages": [{"role", "content"}, ...]}`, and
    `model`, `temperature`, `max_tokens`, `top_p`, `seed` if wanted. Result: `{"text", "model",
    "finish_reason"}`.
    """
    key = environ.get("JOBFARM_LLM_KEY") or environ.get("OPENAI_API_KEY") or "none"
    usual_model = environ.get("JOBFARM_LLM_MODEL") or DEFAULT_MODEL
    rng = random.SystemRandom()

    async def chat(job: Job) -> dict[str, Any]:
        question = _question(job.payload, usual_model)
        job.progress(detail=f"Asking {question['model']}")
        answer = Answer()
        async with servers.client(url, key) as client:
            await retried(
                lambda: _stream(client, question, answer, job),
                may_retry=lambda: not answer.text,  # what people have read cannot be taken back
                rng=rng,
                delays_s=delays_s,
            )
        return {"text": answer.text, "model": answer.model, "finish_reason": answer.finish_reason}

    return chat


def _question(payload: Any, usual_model: str) -> dict[str, Any]:
    messages = messages_of(payload)
    model = payload.get("model") or usual_model
    extras = {name: payload[name] for name in EXTRAS if name in payload}
    return {"model": model, "messages": messages, **extras}


async def _stream(client: openai.AsyncOpenAI, question: dict[str, Any], answer: Answer, job: Job) -> None:
    """Write the tokens of one answer to the job as they come."""
    async for token in _tokens(client, question, answer):
        if not answer.text:
            job.progress(detail=f"{answer.model} is writing")
        answer.text += token
        job.write(token)
    if not answer.finish_reason:
        raise BrokenStreamError("The stream just ended.")
    if not answer.text:
        raise Failed("The model answered with nothing.")


async def _tokens(client: openai.AsyncOpenAI, question: dict[str, Any], answer: Answer) -> AsyncIterator[str]:
    stream = await client.chat.completions.create(**question, stream=True)
    answer.model = str(question["model"])
    try:
        async for chunk in stream:
            answer.model = chunk.model or answer.model
            for choice in chunk.choices[:1]:  # the last chunk may carry no choice, only the usage
                answer.finish_reason = choice.finish_reason or answer.finish_reason
                if choice.delta.content:
                    yield choice.delta.content
    except openai.APIError as error:  # an error event in the stream has no status to judge it by
        raise BrokenStreamError(str(error)) from error
    except Exception as error:  # the client passes on whatever its transport or its JSON reader raised
        raise BrokenStreamError(f"{type(error).__name__}: {error}") from error
    finally:
        await stream.close()
