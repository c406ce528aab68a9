"""`chat` and `openai` without a language model: sentences about the prompt's own words, streamed so that a farm can be
watched; the model `demonstrator` answers chats with them, and paints prompts."""

import asyncio
import base64
import random
import re
import time
from collections.abc import Iterator
from typing import Any

from jobfarm_worker.errors import Failed
from jobfarm_worker.handlers import calls, messages, responses
from jobfarm_worker.handlers.calls import call_of, messages_of, prompt_of
from jobfarm_worker.handlers.chunks import Streamed, Whole, wants_usage
from jobfarm_worker.handlers.messages_request import estimated
from jobfarm_worker.job import Job
from jobfarm_worker.running import Handler

WORD = re.compile(r"[^\W\d_][\w'’-]*")
_FILLERS = """
a about an and are as at be but by can could do does for from give had has have her his how i if in into is it its let
like make me my no not of on one or our please shall she should so some tell than that the their them then there these
they this to us was we were what when where which who why will with would write you your
"""
FILLERS = frozenset(_FILLERS.split())
USUAL_TOPICS = ("quiet", "work", "patience")

# {topic} and {other} are words of the prompt.
SENTENCES = (
    "there are two ways to think about {topic}, and both of them pass by {other}",
    "nobody at the harbour expected {topic} to matter, until {other} turns slowly, like tide over stones",
    "ask the night watch about {topic} and the answer will be patient, luminous, and about {other}",
    "look closer and {topic} turns out to be slightly crooked, as smoke is before {other}",
    "between {topic} and {other} there is a half-drawn map, and an old cartographer keeps it",
    "what {topic} lacks in curiosity, {other} lends it for an afternoon, together with a spare key",
    "for every part of {topic} that is stubborn there is one of {other} that hums",
    "still, good company has its price, and for {topic} the price is a little of {other}",
    "but wait until evening: {other} gathers at the window, and so, by and by, does {topic}",
    "that is all a careful gardener can say about {topic}; the rest is up to {other}",
)
PLAN = (3, 3, 1)  # sentences of each paragraph
NOTICE = "(demonstrator: no language model is configured) "
PACE_S = 0.07  # a word; about a hundred of them make some eight seconds
TOKEN = re.compile(r"\S+\s*")
MODEL = "demonstrator"
SIDE = 384


def compose(prompt: str, *, rng: random.Random) -> str:
    """A text of three short paragraphs about the prompt; the same prompt and generator give the same text."""
    topics, patterns = topics_of(prompt), iter(rng.sample(SENTENCES, sum(PLAN)))
    paragraphs = ([_sentence(next(patterns), rng.sample(topics, 2)) for _ in range(count)] for count in PLAN)
    return "\n\n".join(map(" ".join, paragraphs))


def _sentence(pattern: str, topics: list[str]) -> str:
    topic, other = topics
    text = pattern.format(topic=topic, other=other)
    return f"{text[:1].upper()}{text[1:]}."


def topics_of(prompt: str) -> list[str]:
    """The words of the prompt that carry it, in their order, each once; at least two."""
    words = [word for word in WORD.findall(prompt) if word.lower() not in FILLERS and len(word) > 2]
    distinct = list(dict.fromkeys(words))[:12]
    return distinct if len(distinct) > 1 else [*distinct, *USUAL_TOPICS]


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
        return {"text": text, "model": MODEL, "finish_reason": "stop"}

    return chat


def latest_question(messages: list[dict[str, Any]]) -> str:
    """The last message of the user; content may also be a list of parts, as OpenAI has it."""
    texts = [message["content"] for message in messages if message["role"] == "user"] or [""]
    if isinstance(texts[-1], str):
        return texts[-1]
    parts = [part.get("text", "") for part in texts[-1] if isinstance(part, dict)]
    return " ".join(map(str, parts))


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
            raise calls.invalid(str(failed), code="invalid_value") from failed
        raise calls.invalid(f"The demonstrator has no {path}.", code="unknown_url", status=404)

    async def _chat(self, job: Job, path: str, chat: dict[str, Any], answer: Streamed) -> Any:
        for chunk in _chunks(chat, job_id=job.id):
            _write(job, chat, answer.lines(chunk))
            await asyncio.sleep(self._pace_s)
        _write(job, chat, answer.closing())
        return calls.handed_in(job, path, answer.answer())

    async def _picture(self, job: Job, path: str, body: dict[str, Any]) -> Any:
        from jobfarm_worker.handlers import image_demo  # noqa: PLC0415 - needs numpy and pillow

        picture = await asyncio.to_thread(image_demo.painted, prompt_of(body), side=self._side)
        data = [{"b64_json": base64.b64encode(picture).decode()}]
        return calls.handed_in(job, path, {"created": _now(), "data": data})


def _chat_of(job: Job, path: str, body: dict[str, Any]) -> tuple[dict[str, Any], Streamed]:
    """The chat that a call asks for, and what makes its answer. Raises Failed, for good."""
    if path == "responses":
        chat, new = responses.as_chat(job, body)
        return chat, new()
    if path == "messages":
        chat, new_message = messages.as_chat(job, body)
        return chat, new_message()
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
