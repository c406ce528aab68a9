"""What prompts are allowed, and when two texts are the same."""

import random
import re
import unicodedata
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

from examples.imagegame.errors import PromptRefused

LONGEST = 100  # characters, as in the game that this one follows
NEARLY = 0.9  # of two texts' characters in common, in order: a typing error in a sentence, not another sentence
_NOT_A_WORD = re.compile(r"[\W_]+")


def checked(text: str, *, blocked: Iterable[str], noun: str = "prompt") -> str:
    """The prompt (or title: `noun`) as it is kept: composed, without spaces around it or several in a row.

    Raises PromptRefused for one that is empty, longer than 100 characters, holds what cannot be printed (control
    characters, invisible marks that turn text around, half of a surrogate pair), or a blocked word (see `flagged`).
    """
    tidied = " ".join(unicodedata.normalize("NFC", text).split())
    if not tidied:
        raise PromptRefused(why=f"A {noun} cannot be empty.")
    if len(tidied) > LONGEST:
        raise PromptRefused(why=f"A {noun} has at most {LONGEST} characters; this one has {len(tidied)}.")
    if not tidied.isprintable() or not _words(tidied):
        raise PromptRefused(why=f"A {noun} is made of words that can be printed.")
    if word := flagged(tidied, blocked=blocked):
        raise PromptRefused(why=why_flagged(word, noun=noun))
    return tidied


def why_flagged(word: str, *, noun: str = "prompt") -> str:
    """The message to people about a blocked word."""
    return f"Your {noun} was flagged: “{word}” is not wanted here."


def flagged(text: str, *, blocked: Iterable[str]) -> str | None:
    """The first of the blocked words, or rows of words, that the text holds; None if it holds none.

    Whole words are compared, whatever their case, accents, width and punctuation: `b l o o d` is not seen through,
    `BLÓÓD!` is, and `bloodhound` is no `blood`.
    """
    padded = f" {_words(text)} "
    return next((entry for entry in blocked if (words := _words(entry)) and f" {words} " in padded), None)


def are_alike(one: str, other: str) -> bool:
    """Whether two texts are the same, but for case, accents, punctuation and a typing error."""
    first, second = _words(one), _words(other)
    return first == second or SequenceMatcher(None, first, second, autojunk=False).ratio() >= NEARLY


def _words(text: str) -> str:
    """The bare words, with one space between two."""
    plain = unicodedata.normalize("NFKD", text).casefold()
    letters = "".join(character for character in plain if not unicodedata.combining(character))
    return _NOT_A_WORD.sub(" ", letters).strip()


_WHO = ("a lighthouse", "an old whale", "a clockwork fox", "two moons", "a paper dragon", "the last baker in town",
        "a sleepy tiger", "a parade of snails", "an astronaut", "a very small giant", "grandmother's teapot",
        "a choir of frogs")  # fmt: skip
_DOING = ("waiting for the rain", "in a field of glass", "learning to swim", "at the edge of the map",
          "on a bus at night", "made of autumn leaves", "underneath the ice", "selling stars by the pound",
          "lost in a library", "dancing with its shadow", "behind a waterfall", "in the year 3000")  # fmt: skip


def made_up(count: int, *, rng: random.Random, unlike: Sequence[str]) -> list[str]:
    """So many titles, none like another or like one of `unlike`."""
    pairs = [f"{who} {doing}" for who in _WHO for doing in _DOING]
    chosen: list[str] = []
    for title in rng.sample(pairs, len(pairs)):
        if len(chosen) == count:
            break
        if not any(are_alike(title, other) for other in [*unlike, *chosen]):
            chosen.append(title)
    return chosen
