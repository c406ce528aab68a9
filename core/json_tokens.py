"""The tokens of JSON in a text, which may lie in a file: the grammar, and no values."""

import re
from mmap import mmap
from typing import Final, NoReturn

from core.values import NotJsonError

PIECE: Final = 1 << 18  # bytes that are looked at in one go: nothing else of the process runs meanwhile
# Texts without NUL and halves of surrogate pairs, which nothing may hold that is kept in PostgreSQL.
_UNIT: Final = rb"(?!0000|[dD][89a-fA-F])[0-9a-fA-F]{4}|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_TEXT: Final = rb'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u(?:' + _UNIT + rb")))*+"
_CHARACTERS: Final = re.compile(_TEXT)
_LONGEST_CHARACTER: Final = len(rb"\ud800\udc00")
STRING: Final = re.compile(rb'"' + _TEXT + rb'"')
_SPACE: Final = re.compile(rb"[ \t\n\r]*+")
_SCALAR: Final = rb"(?:-?(?:0|[1-9][0-9]{0,%d}+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]{1,%d})?+|true|false|null)"
ONE_SCALAR: Final = re.compile(
    _SCALAR % (1200, 10)
)  # jsonb holds no longer ones; whoever matches it looks at the value
# In a row only numbers whose values need no look: they are finite, and short enough.
_SIMPLE: Final = rb"[ \t\n\r]*+(?:" + _SCALAR % (200, 2) + rb'|"[^"\\\x00-\x1f]{0,1000}+")[ \t\n\r]*+,'
ENTRY: Final = re.compile(_SIMPLE)
ENTRIES: Final = re.compile(rb"(?:" + _SIMPLE + rb")++")
FIELDS: Final = re.compile(rb'(?:[ \t\n\r]*+"[^"\\\x00-\x1f]{0,1000}+"[ \t\n\r]*+:' + _SIMPLE + rb")++")
NAMES: Final = re.compile(rb'[ \t\n\r]*+"([^"\\\x00-\x1f]{0,1000}+)"[ \t\n\r]*+:' + _SIMPLE)


class JsonTokens:
    """A text, and how far it is read."""

    def __init__(self, text: bytes | mmap) -> None:
        self.text = text
        self.position = 0

    def run(self, several: re.Pattern[bytes]) -> bytes:
        """Simple values in a row, each with the comma behind it: most of what long lists hold."""
        self.peek()
        match = several.match(self.text, self.position, self.position + PIECE)
        if match is None:
            return b""
        self.position = match.end()
        return match[0]

    def match(self, pattern: re.Pattern[bytes], why: str) -> bytes:
        """What matches here. Raises NotJsonError, with `why`, where nothing does."""
        match = pattern.match(self.text, self.position)
        if match is None:
            self.refuse(why)
        self.position = match.end()
        return match[0]

    def peek(self) -> bytes:
        """The next character that is no space, read up to there; none at the end."""
        match = _SPACE.match(self.text, self.position)
        assert match is not None  # it matches nothing, too
        self.position = match.end()
        return self.text[self.position : self.position + 1]

    def expect(self, character: bytes) -> None:
        if self.peek() != character:
            self.refuse(f"{character.decode()!r} was expected")
        self.position += 1
        self.peek()

    def read_string(self) -> None:
        """Read a string, however long it is. Raises NotJsonError."""
        self.position += 1
        while True:
            match = _CHARACTERS.match(self.text, self.position, self.position + PIECE)
            assert match is not None
            at_most, self.position = self.position + PIECE, match.end()
            if self.text[self.position : self.position + 1] == b'"':
                self.position += 1
                return
            if at_most - self.position > _LONGEST_CHARACTER:
                self.refuse("a text has no end, or holds what no text may: a control character, NUL, half of a pair")

    def refuse(self, why: str) -> NoReturn:
        raise NotJsonError(f"The body is not JSON: {why}, at byte {self.position}.")
