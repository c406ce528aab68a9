"""`chat`: a streamed answer of any OpenAI-compatible server (Ollama, vLLM, llama.cpp and others)."""

from collections.abc import Mapping, Sequence
from typing import Any

from jobfarm_worker.errors import Failed
from jobfarm_worker.handlers.calls import messages_of
from jobfarm_worker.handlers.chunks import Whole, objects
from jobfarm_worker.handlers.openai_calls import pass_on
from jobfarm_worker.handlers.servers import DELAYS_S, Request, Server, retried
from jobfarm_worker.job import Job
from jobfarm_worker.running import Handler

DEFAULT_MODEL = "llama3.2"
EXTRAS = ("temperature", "max_tokens", "top_p", "seed")  # of the payload, handed on as they are


class Spoken(Whole):
    """The first choice of a chat: of its chunks, people see the text alone."""

    def lines(self, chunk: Mapping[str, Any]) -> list[str]:
        self.add(chunk)
        deltas = objects([choice.get("delta") for choice in objects(chunk.get("choices"))[:1]])
        return [str(delta["content"]) for delta in deltas if delta.get("content")]


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
        connection, answer = server.connection(), Spoken()

        async def ask() -> None:
            nonlocal answer
            answer = Spoken()
            await pass_on(connection, Request("chat/completions", {**question, "stream": True}), answer, job)

        # What people have read cannot be taken back.
        await retried(ask, may_retry=lambda: not answer.has_token, delays_s=delays_s)
        [choice, *_] = answer.answer()["choices"]
        text = choice.get("message", {}).get("content")
        if not text:
            raise Failed("The model answered with nothing.")
        model = answer.model or str(question["model"])
        return {"text": text, "model": model, "finish_reason": choice["finish_reason"]}

    return chat


def _question(payload: Any, usual_model: str) -> dict[str, Any]:
    messages = messages_of(payload)
    model = payload.get("model") or usual_model
    extras = {name: payload[name] for name in EXTRAS if name in payload}
    return {"model": model, "messages": messages, **extras}
