"""The tokens of JSON, read from a source piece by piece: the grammar, and no values."""

import re
from codecs import getincrementaldecoder
from typing import Final, NoReturn, Protocol

from core.values import NotJsonError

PIECE: Final = 1 << 18
# Texts without NUL and halves of surrogate pairs, which nothing may hold that is kept in PostgreSQL.
_UNIT: Final = rb"(?!0000|[dD][89a-fA-F])[0-9a-fA-F]{4}|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_TEXT: Final = rb'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u(?:' + _UNIT + rb")))*+"
CHARACTERS: Final = re.compile(_TEXT)
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


class Source(Protocol):
    """What is read, as a request is."""

    def read(self, size: int, /) -> bytes:
        """The next bytes; none at the end."""


class JsonTokens:
    """What was read of a source and what is next in it. Before the former is dropped, `flush_all` is called."""

    def __init__(self, source: Source, *, ahead: int) -> None:
        """So many bytes are there `ahead`, unless it ends before: no token is longer that is matched at once."""
        self._source = source
        self.ahead = ahead
        self._decoder = getincrementaldecoder("utf-8")()
        self.buffer, self.position = b"", 0
        self.is_over = False
        self._read = 0

    def flush_all(self) -> None:
        """Take what was read."""

    def run(self, several: re.Pattern[bytes]) -> bytes:
        """Simple values in a row, each with the comma behind it: most of what long lists hold."""
        self.skip_space()
        match = several.match(self.buffer, self.position)
        if match is None:
            return b""
        self.position = match.end()
        return match[0]

    def match(self, pattern: re.Pattern[bytes], why: str) -> bytes:
        """What matches here. Raises NotJsonError, with `why`, where nothing does."""
        match = pattern.match(self.buffer, self.position)
        if match is None:
            self.refuse(why)
        self.position = match.end()
        return match[0]

    def peek(self) -> bytes:
        """The next character that is no space; none at the end."""
        self.skip_space()
        return self.buffer[self.position : self.position + 1]

    def expect(self, character: bytes) -> None:
        """Read this character. Raises NotJsonError where another is next."""
        if self.peek() != character:
            self.refuse(f"{character.decode()!r} was expected")
        self.position += 1
        self.skip_space()

    def skip_space(self) -> None:
        """Read spaces; so many bytes as were asked for lie ahead then."""
        while True:
            if len(self.buffer) - self.position < self.ahead and not self.is_over:
                self.refill()
            match = _SPACE.match(self.buffer, self.position)
            assert match is not None
            self.position = match.end()
            if self.position < len(self.buffer) or self.is_over:
                return

    def refill(self) -> None:
        """Read more of the source, and drop what was taken."""
        self.flush_all()
        pieces, size = [self.buffer[self.position :]], len(self.buffer) - self.position
        self._read += self.position
        while size < self.ahead + PIECE and not self.is_over:
            piece = self._source.read(PIECE)
            self.is_over = not piece
            try:
                self._decoder.decode(piece, final=self.is_over)
            except UnicodeDecodeError:
                self.refuse("it is not UTF-8")
            pieces.append(piece)
            size += len(piece)
        self.buffer, self.position = b"".join(pieces), 0

    def refuse(self, why: str) -> NoReturn:
        """Raise NotJsonError."""
        raise NotJsonError(f"The body is not JSON: {why}, at byte {self._read + self.position}.")
