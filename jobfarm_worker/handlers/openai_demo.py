"""`openai` without a model server: the model `demonstrator` answers chats with composed text, and paints prompts."""

import asyncio
import base64
import random
import time
from collections.abc import Iterator
from typing import Any

from jobfarm_worker.errors import Failed
from jobfarm_worker.handlers import answers
from jobfarm_worker.handlers.chat_demo import NOTICE, TOKEN, compose, latest_question
from jobfarm_worker.handlers.chunks import Streamed, Whole, wants_usage
from jobfarm_worker.handlers.messages import MappedMessage
from jobfarm_worker.handlers.messages_request import chat_request as chat_of_message, estimated
from jobfarm_worker.handlers.payloads import call_of, messages_of, prompt_of
from jobfarm_worker.handlers.responses import MappedResponse
from jobfarm_worker.handlers.responses_request import chat_request, with_context
from jobfarm_worker.job import Job

MODEL = "demonstrator"
PACE_S = 0.07  # a word
SIDE = 384


class Demonstrator:
    """A handler for chats and pictures. Usage is counted in words; the same call gets the same answer."""

    def __init__(self, *, pace_s: float = PACE_S, side: int = SIDE) -> None:
        """`pace_s`: seconds for a word; `side`: width and height of its pictures in pixels, a multiple of 24."""
        self._pace_s = pace_s
        self._side = side

    async def models(self) -> list[str]:
        return [MODEL]

    async def __call__(self, job: Job) -> Any:
        path, body = call_of(job.payload, queue=job.queue)
        # What a chat cannot say of one in another dialect is refused in words of its own.
        chat, answer = _chat_of(job, path, body)
        try:
            if path == "images/generations":
                return await self._picture(job, path, body)
            if path in ("chat/completions", "responses", "messages"):
                return await self._chat(job, path, chat, answer)
            if path == "messages/count_tokens":
                return {"input_tokens": estimated(body)}
        except Failed as failed:
            raise _refusal(400, str(failed), code="invalid_value") from failed
        raise _refusal(404, f"The demonstrator has no {path}.", code="unknown_url")

    async def _chat(self, job: Job, path: str, chat: dict[str, Any], answer: Streamed) -> Any:
        for chunk in _chunks(chat, job_id=job.id):
            _write(job, chat, answer.lines(chunk))
            await asyncio.sleep(self._pace_s)
        _write(job, chat, answer.closing())
        return answers.handed_in(job, path, answer.answer())

    async def _picture(self, job: Job, path: str, body: dict[str, Any]) -> Any:
        from jobfarm_worker.handlers import image_demo  # noqa: PLC0415 - needs numpy and pillow

        picture = await asyncio.to_thread(image_demo.painted, prompt_of(body), side=self._side)
        data = [{"b64_json": base64.b64encode(picture).decode()}]
        return answers.handed_in(job, path, {"created": _now(), "data": data})


handler = Demonstrator


def _chat_of(job: Job, path: str, body: dict[str, Any]) -> tuple[dict[str, Any], Streamed]:
    """The chat that a call asks for, and what makes its answer. Raises Failed, for good."""
    if path == "responses":
        chat = chat_request(with_context(job.payload, body))
        return chat, MappedResponse(body, job_id=job.id, fence=job.fence, now=_now())
    if path == "messages":
        chat, notes = chat_of_message(body)
        return chat, MappedMessage(body, notes=notes, job_id=job.id)
    return body, Whole(shows_usage=wants_usage(body))


def _write(job: Job, body: dict[str, Any], lines: list[str]) -> None:
    if lines and body.get("stream"):
        job.write("".join(lines))


def _chunks(body: dict[str, Any], *, job_id: int) -> Iterator[dict[str, Any]]:
    """The chunks of an answer, the last with the usage."""
    question = latest_question(messages_of({"messages": body.get("messages") or None}))
    words = TOKEN.findall(NOTICE + compose(question, rng=random.Random(question)))  # noqa: S311 - a seed, no secret
    head = {"id": f"chatcmpl-{job_id}", "object": "chat.completion.chunk", "created": _now(), "model": MODEL}
    for number, word in enumerate(words):
        role = {} if number else {"role": "assistant"}
        yield {**head, "choices": [{"index": 0, "delta": {**role, "content": word}, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    prompt_words = len(question.split())
    usage = {"prompt_tokens": prompt_words, "completion_tokens": len(words), "total_tokens": prompt_words + len(words)}
    yield {**head, "choices": [], "usage": usage}


def _now() -> int:
    return int(time.time())  # noqa: TID251 (as a model server says when it answered)


def _refusal(status: int, message: str, *, code: str) -> Exception:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return answers.refused(status, {"error": error}, message=message, retryable=False)
