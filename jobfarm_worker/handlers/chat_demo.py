"""`chat` without a language model: sentences grown from a small grammar around the prompt's own words, streamed word by
word, so that a farm can be watched at work."""

import asyncio
import random
import re
from typing import Any

from jobfarm_worker.handlers.payloads import messages_of
from jobfarm_worker.job import Job
from jobfarm_worker.registry import Handler

WORD = re.compile(r"[^\W\d_][\w'’-]*")
SLOT = re.compile(r"\{(\w+)\}")
_FILLERS = """
a about an and are as at be but by can could do does for from give had has have her his how i if in into is it its let
like make me my no not of on one or our please shall she should so some tell than that the their them then there these
they this to us was we were what when where which who why will with would write you your
"""
FILLERS = frozenset(_FILLERS.split())
USUAL_TOPICS = ("quiet", "work", "patience")

# {topic} and {other} come from the prompt; every other name is a list below.
GRAMMAR: dict[str, tuple[str, ...]] = {
    "opening": (
        "Begin with {topic}, since that is where {somebody} would begin",
        "There are two ways to think about {topic}, and both of them pass by {place}",
        "Nobody at {place} expected {topic} to matter, and yet it does",
        "Ask {somebody} about {topic} and the answer will be {quality}",
    ),
    "middle": (
        "Look closer and {other} turns out to be {quality}, almost {quality}, {simile}",
        "Between {topic} and {other} there is {thing}, and {somebody} keeps it in order",
        "It {motion} {simile}, until {other} {changes} it",
        "{Somebody} once carried {thing} all the way to {place}, only to find {topic} there already",
        "What {topic} lacks in {virtue}, {other} lends it for an afternoon",
        "For every part of {topic} that is {quality}, there is one of {other} that {motion}",
    ),
    "turn": (
        "Still, {virtue} has its price, and here the price is {thing}",
        "And then {other} {motion}, which {somebody} had not foreseen",
        "But wait until evening: {place} grows {quality}, and so does {topic}",
    ),
    "closing": (
        "In the end {topic} asks for little more than {virtue}, and gives {thing} in return",
        "That is all {somebody} can say about {topic}; the rest {motion} {simile}",
        "Tomorrow {topic} will look {quality} again, and {other} will have {thing} to thank for it",
    ),
    "somebody": ("a careful gardener", "the night watch", "an old cartographer", "the harbour master", "a beekeeper"),
    "place": ("the edge of the field", "the workshop", "the upper deck", "the reading room", "the lighthouse"),
    "quality": ("patient", "luminous", "slightly crooked", "unhurried", "stubborn", "clear", "older than it looks"),
    "thing": ("a jar of odd screws", "a half-drawn map", "the smell of rain", "one good lamp", "a spare key"),
    "virtue": ("patience", "curiosity", "a steady hand", "good company", "a sense of proportion"),
    "motion": ("drifts", "turns slowly", "hums", "gathers at the window", "keeps its own hours", "settles"),
    "changes": ("rearranges", "softens", "outlives", "borrows from", "quietly improves"),
    "simile": ("like tide over stones", "as smoke does before rain", "like a well-kept secret"),
}
PLAN = (("opening", "middle", "middle"), ("middle", "turn", "middle"), ("closing",))


def compose(prompt: str, *, rng: random.Random) -> str:
    """A text of three short paragraphs about the prompt; the same prompt and generator give the same text."""
    topics = topics_of(prompt)
    used: set[str] = set()
    paragraphs = [" ".join(_sentence(part, topics, used, rng) for part in parts) for parts in PLAN]
    return "\n\n".join(paragraphs)


def topics_of(prompt: str) -> list[str]:
    """The words of the prompt that carry it, in their order, each once; at least two."""
    words = [word for word in WORD.findall(prompt) if word.lower() not in FILLERS and len(word) > 2]
    distinct = list(dict.fromkeys(words))[:12]
    return distinct if len(distinct) > 1 else [*distinct, *USUAL_TOPICS]


def _sentence(part: str, topics: list[str], used: set[str], rng: random.Random) -> str:
    """One sentence of this part, of a pattern and with phrases that the text has not used yet."""
    topic, other = rng.sample(topics, 2)

    def fill(slot: re.Match[str]) -> str:
        name = slot[1]
        if name in {"topic", "other"}:
            return topic if name == "topic" else other
        phrase = _fresh(name.lower(), used, rng)
        return _capital(phrase) if name[0].isupper() else phrase

    return _capital(SLOT.sub(fill, _fresh(part, used, rng))) + "."


def _fresh(name: str, used: set[str], rng: random.Random) -> str:
    """A choice from this list, one that was not used yet if there is any."""
    choices = [choice for choice in GRAMMAR[name] if choice not in used] or list(GRAMMAR[name])
    chosen = rng.choice(choices)
    used.add(chosen)
    return chosen


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


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
