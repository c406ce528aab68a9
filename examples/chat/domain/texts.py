"""What may be written, and what the assistant is told of it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

MESSAGE_LIMIT = 4_000
INSTRUCTIONS_LIMIT = 2_000
ANSWER_LIMIT = 100_000  # characters of an answer that are kept
CONTEXT = 5  # finished messages, the question included, that the assistant is told

ANSWER_TOKENS = 1_024  # what an answer may have at most; the job says so to the model
TOKEN_CHARACTERS = 4  # of English text in the common tokenizers; a little less of others
FRAME_TOKENS = 4  # around each message


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One message as a model is told it; `role` is system, user or assistant."""

    role: str
    text: str


def tidied(text: str) -> str:
    """The text with plain line ends, and without space around it."""
    return text.replace("\r\n", "\n").replace("\r", "\n").strip()


def is_storable(text: str, *, limit: int) -> bool:
    """Whether PostgreSQL can hold it (no NUL, no half of a surrogate pair) and it has at most `limit` characters."""
    whole = "\x00" not in text and not any("\ud800" <= character <= "\udfff" for character in text)
    return whole and len(text) <= limit


def payload(lines: Sequence[Line]) -> dict[str, Any]:
    """What a worker's `chat` handler is handed."""
    messages = [{"role": line.role, "content": line.text} for line in lines]
    return {"messages": messages, "max_tokens": ANSWER_TOKENS}


def estimated_tokens(lines: Sequence[Line]) -> int:
    """How many tokens answering this takes at most, the answer included. Never too few for English."""
    asked = sum(math.ceil(len(line.text) / TOKEN_CHARACTERS) + FRAME_TOKENS for line in lines)
    return asked + ANSWER_TOKENS
