"""`chat` without a language model: sentences about the prompt's own words, streamed so that a farm can be watched."""

import asyncio
import random
import re
from typing import Any

from jobfarm_worker.handlers.payloads import messages_of
from jobfarm_worker.job import Job
from jobfarm_worker.registry import Handler

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
