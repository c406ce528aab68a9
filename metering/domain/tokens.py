"""How many tokens a job used, as its result says, and how many it is going to use, as its payload lets expect."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any, Final

MOST: Final = 10**12  # more is no count of tokens: millions of attempts with so many fit into a sum of the database
OUTPUT_TOKENS: Final = 1000  # expected of an answer whose call states no limit
_CHARACTERS: Final = 4  # of English text in a token, as OpenAI's help says
_PICTURE_TOKENS: Final = 1000  # expected of a picture in a call, whatever its size
_DATA: Final = "data:"
_LIMITS: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_PROMPTS: Final = ("messages", "prompt", "input", "instructions", "system", "tools", "query", "documents")
_CACHED: Final = ("cache_creation_input_tokens", "cache_read_input_tokens")  # which `input_tokens` leaves out


@dataclass(frozen=True, slots=True)
class Tokens:
    """Tokens in (the prompt) and out (the answer)."""

    input: int = 0
    output: int = 0

    @property
    def total(self) -> int:
        """Both together: what a budget of tokens counts."""
        return self.input + self.output

    def bounded(self) -> "Tokens":
        return Tokens(*(max(0, min(MOST, int(each))) for each in (self.input, self.output)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """How a kind's jobs are read: `model` is the path of the model's name in a payload, `used` reads a result,
    `expected` a payload, `written` the output of an attempt whose result does not say what it used; None: such an
    attempt is not known to have used any. None of them raises for any JSON or text."""

    model: tuple[str, ...]
    used: Callable[[Any], Tokens]
    expected: Callable[[Any], Tokens]
    written: "Callable[[str], Written] | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a part of an output holds: so many characters of an answer, and the last count of tokens in it, if any."""

    characters: int
    used: Tokens | None = None

    def estimated(self, prompt: Tokens, *, part: float = 1.0) -> Tokens:
        """What an attempt used that wrote this, which is such a part of its output, after this prompt: nothing where
        it wrote nothing of an answer."""
        if not self.characters:
            return Tokens()
        return Tokens(prompt.input, min(MOST, ceil(self.characters / part / _CHARACTERS)))


def used(result: Any) -> Tokens:
    """What the `usage` object of a result says, in either of OpenAI's forms (prompt_tokens and completion_tokens, or
    input_tokens and output_tokens) or in Anthropic's; nothing where there is none."""
    usage = result.get("usage") if isinstance(result, Mapping) else None
    if not isinstance(usage, Mapping):
        return Tokens()
    into = _count(usage, "prompt_tokens", "input_tokens")
    into = None if into is None else min(MOST, into + sum(_count(usage, name) or 0 for name in _CACHED))
    out = _count(usage, "completion_tokens", "output_tokens")
    if out is None:
        out = max(0, (_count(usage, "total_tokens") or 0) - (into or 0))
    return Tokens(into or 0, out)


def expected(body: Any, *, is_answer_text: bool = True) -> Tokens:
    """What a call with this body is going to use: the length of its prompt, and the most that its answer may have;
    OUTPUT_TOKENS where it states no limit. An answer that is no text has none."""
    if not isinstance(body, Mapping):
        return Tokens(1, OUTPUT_TOKENS if is_answer_text else 0)
    into = sum(_length(body[name]) for name in _PROMPTS if name in body)
    most = _count(body, *_LIMITS)
    each = OUTPUT_TOKENS if most is None else most
    return Tokens(into + 1, min(MOST, each * (_count(body, "n") or 1)) if is_answer_text else 0)


def _count(numbers: Mapping[str, Any], *names: str) -> int | None:
    """The first of these that is a count."""
    for name in names:
        number = numbers.get(name)
        if isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number <= MOST:
            return int(number)
    return None


def _length(value: Any) -> int:
    """Tokens of all texts in a value, whatever its form; an iterative walk, since a payload may be deep."""
    characters, pictures, waiting = 0, 0, [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, str):
            is_picture = one.startswith(_DATA)
            pictures += is_picture
            characters += 0 if is_picture else len(one)
        elif isinstance(one, Mapping):
            is_picture = one.get("type") == "base64"  # as Anthropic's API has them
            pictures += is_picture
            waiting.extend(() if is_picture else one.values())
        elif isinstance(one, list):
            waiting.extend(one)
        else:
            characters += _CHARACTERS if isinstance(one, int) else 0  # embeddings take tokens by their numbers
    return -(-characters // _CHARACTERS) + pictures * _PICTURE_TOKENS
