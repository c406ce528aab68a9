"""What may be written, and what of it goes into a prompt."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MESSAGE_LIMIT = 4_000
INSTRUCTIONS_LIMIT = 2_000
ANSWER_LIMIT = 100_000  # characters of an answer that are kept
CONTEXT = 5  # finished messages, the question included, that go into a prompt

ANSWER_TOKENS = 1_024  # what an answer may have at most; the job says so to the model
TOKEN_CHARACTERS = 4  # of English text in the common tokenizers; a little less of others
FRAME_TOKENS = 4  # around each message


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMessage:
    """One message of a prompt; `role` is system, user or assistant."""

    role: str
    text: str


def tidied(text: str) -> str:
    """The text with plain line ends, and without space around it."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def is_storable(text: str, *, limit: int) -> bool:
    """Whether PostgreSQL can hold it (no NUL, no half of a surrogate pair) and it has at most `limit` characters."""
    whole = "\x00" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
    return whole and len(text) <= limit


def payload(prompt: Sequence[PromptMessage]) -> dict[str, Any]:
    """The payload of a worker's `chat` handler."""
    messages = [{"role": message.role, "content": message.text} for message in prompt]
    return {"messages": messages, "max_tokens": ANSWER_TOKENS}


def estimated_tokens(prompt: Sequence[PromptMessage]) -> int:
    """How many tokens answering this takes at most, the answer included. Never too few for English."""
    prompt_tokens = sum(math.ceil(len(message.text) / TOKEN_CHARACTERS) + FRAME_TOKENS for message in prompt)
    return prompt_tokens + ANSWER_TOKENS
