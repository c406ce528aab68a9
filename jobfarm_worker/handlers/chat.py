"""`chat`: a streamed answer of any OpenAI-compatible server (Ollama, vLLM, llama.cpp and others)."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobfarm_worker.errors import Failed
from jobfarm_worker.handlers.chunks import GrowingText, objects
from jobfarm_worker.handlers.payloads import messages_of
from jobfarm_worker.handlers.retrying import DELAYS_S, retried
from jobfarm_worker.handlers.servers import BrokenStreamError, Connection, Request, Server
from jobfarm_worker.job import Job
from jobfarm_worker.registry import Handler

DEFAULT_MODEL = "llama3.2"
EXTRAS = ("temperature", "max_tokens", "top_p", "seed")  # of the payload, handed on as they are


@dataclass(slots=True, kw_only=True)
class Answer:
    text: GrowingText = field(default_factory=GrowingText)
    model: str = ""
    finish_reason: str = ""


def handler(*, url: str, environ: Mapping[str, str], delays_s: Sequence[float] = DELAYS_S) -> Handler:
    """A handler that asks the server at `url` (its `/v1` address).

    `JOBFARM_LLM_KEY` or `OPENAI_API_KEY` is the key, if it needs one; `JOBFARM_LLM_MODEL` the model of
    payloads that name none. Payload: `{"prompt": str}` or `{"messages": [{"role", "content"}, ...]}`, and
    `model`, `temperature`, `max_tokens`, `top_p`, `seed` if wanted. Result: `{"text", "model",
    "finish_reason"}`.
    """
    server = Server.named(url, key="JOBFARM_LLM_KEY", environ=environ)
    usual_model = environ.get("JOBFARM_LLM_MODEL") or DEFAULT_MODEL

    async def chat(job: Job) -> dict[str, Any]:
        question = _question(job.payload, usual_model)
        job.progress(detail=f"Asking {question['model']}")
        answer = Answer()
        async with server.opened() as connection:
            await retried(
                lambda: _stream(connection, question, answer, job),
                may_retry=lambda: not answer.text,  # what people have read cannot be taken back
                delays_s=delays_s,
            )
        return {"text": str(answer.text), "model": answer.model, "finish_reason": answer.finish_reason}

    return chat


def _question(payload: Any, usual_model: str) -> dict[str, Any]:
    messages = messages_of(payload)
    model = payload.get("model") or usual_model
    extras = {name: payload[name] for name in EXTRAS if name in payload}
    return {"model": model, "messages": messages, **extras}


async def _stream(connection: Connection, question: dict[str, Any], answer: Answer, job: Job) -> None:
    async for token in _tokens(connection, question, answer):
        if not answer.text:
            job.progress(detail=f"{answer.model} is writing")
        answer.text += token
        job.write(token)
    if not answer.finish_reason and not connection.is_complete:
        raise BrokenStreamError("The stream just ended.")
    if not answer.text:
        raise Failed("The model answered with nothing.")
    answer.finish_reason = answer.finish_reason or "stop"  # some servers do not say why


async def _tokens(connection: Connection, question: dict[str, Any], answer: Answer) -> AsyncIterator[str]:
    answer.model = str(question["model"])
    async for chunk in connection.stream(Request("chat/completions", {**question, "stream": True})):
        answer.model = str(chunk.get("model") or answer.model)
        for choice in objects(chunk.get("choices"))[:1]:  # the last chunk may carry no choice, only the usage
            answer.finish_reason = str(choice.get("finish_reason") or answer.finish_reason)
            for delta in objects([choice.get("delta")]):
                if content := delta.get("content"):
                    yield str(content)
