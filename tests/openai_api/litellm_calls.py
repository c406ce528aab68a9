"""The calls of a program that has litellm as its client. What it sees is its last line, as JSON."""

import asyncio
import json
import os
from typing import Any

import litellm

litellm.suppress_debug_info = True
URL, KEY = os.environ["BASE_URL"], os.environ["API_KEY"]
HELLO: Any = [{"role": "user", "content": "Say hello."}]
CHATS: dict[str, Any] = {"api_base": f"{URL}/v1", "api_key": KEY, "model": "openai/tiny", "max_retries": 0}
MESSAGES: dict[str, Any] = {"api_base": URL, "api_key": KEY, "model": "anthropic/tiny", "max_tokens": 9}
LOOK: Any = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


def called(asks: dict[str, Any]) -> dict[str, Any]:
    """By `completion` in all ways."""
    asks = {**asks, "messages": HELLO}
    stream = {**asks, "stream": True, "stream_options": {"include_usage": True}}
    return {
        "whole": _answer(litellm.completion(**asks)),
        "streamed": _joined(litellm.completion(**stream)),
        "awaited": _answer(asyncio.run(litellm.acompletion(**asks))),
        "called": _answer(litellm.completion(**asks, tools=[LOOK])),
        "streams a call": _joined(litellm.completion(**stream, tools=[LOOK])),
    }


def _answer(made: Any) -> list[Any]:
    [choice] = made.choices
    if choice.message.tool_calls:
        [call] = choice.message.tool_calls
        return [call.function.name, json.loads(call.function.arguments), choice.finish_reason]
    return [choice.message.content, choice.finish_reason, made.usage.total_tokens]


def _joined(stream: Any) -> list[Any]:
    return _answer(litellm.stream_chunk_builder(list(stream)))


def refused(**asks: Any) -> list[Any]:
    """The name of the error, which is one of OpenAI's too, and its status."""
    try:
        litellm.completion(**asks, messages=HELLO)
    except litellm.openai.APIStatusError as error:
        return [type(error).__name__, error.status_code]
    return []


async def message() -> list[Any]:
    """By its own client of messages."""
    made: Any = await litellm.anthropic.messages.acreate(**MESSAGES, messages=HELLO)
    return [made["content"], made["stop_reason"]]


seen = {
    "chats": called(CHATS),
    "messages": called(MESSAGES),
    "refused": [
        refused(**{**CHATS, "model": "openai/huge"}),
        refused(**{**MESSAGES, "model": "anthropic/huge"}),
        refused(**{**CHATS, "api_key": "jft_wrong"}),
    ],
    "its messages": asyncio.run(message()),
    "embeddings": [each["embedding"] for each in litellm.embedding(**CHATS, input=["sea", "hill"]).data],
    "response": litellm.responses(**CHATS, input="Say hello.").output_text,
}
print(json.dumps(seen))
