"""The text of a large body where it lies: in a temporary file of which several read parts; and its tokens, which are
the grammar of JSON and no values."""

import io
import re
from codecs import getincrementaldecoder
from mmap import ACCESS_READ, mmap
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final, NoReturn, Protocol

from core.values import NotJsonError

PIECE: Final = 1 << 18  # bytes that are looked at in one go: nothing else of the process runs meanwhile
SPOOLED: Final = 1 << 16  # bytes that are held in memory
# Texts without NUL and halves of surrogate pairs, which nothing may hold that is kept in PostgreSQL.
_UNIT: Final = rb"(?!0000|[dD][89a-fA-F])[0-9a-fA-F]{4}|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_TEXT: Final = rb'(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u(?:' + _UNIT + rb")))*+"
_CHARACTERS: Final = re.compile(_TEXT)
_LONGEST_CHARACTER: Final = len(rb"\ud800\udc00")
STRING: Final = re.compile(rb'"' + _TEXT + rb'"')
_SPACE: Final = re.compile(rb"[ \t\n\r]*+")
_SCALAR: Final = rb"(?:-?(?:0|[1-9][0-9]{0,%d}+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]{1,%d})?+|true|false|null)"
# jsonb holds no longer numbers; whoever matches it looks at the value.
ONE_SCALAR: Final = re.compile(_SCALAR % (1200, 10))
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


class Spool(SpooledTemporaryFile[bytes]):
    """A temporary file that is closed when nobody has a part of it any more."""

    def __del__(self) -> None:
        self.close()


class Slice(io.RawIOBase):
    """A part of a file, read as a file of its own."""

    def __init__(self, file: IO[bytes], start: int, size: int) -> None:
        super().__init__()
        self._file, self._start, self._size, self._at = file, start, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence])
        return self._at

    def readinto(self, buffer: Any) -> int:
        self._file.seek(self._start + self._at)
        piece = self._file.read(max(0, min(len(buffer), self._size - self._at)))
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


class JsonTokens:
    """A text, and how far it is read; `file`: where it lies, for parts that are read later. Raises NotJsonError where
    it is no UTF-8."""

    def __init__(self, source: Source) -> None:
        self.file = _kept(source)
        self.text = _text(self.file)
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


def _kept(source: Source) -> Spool:
    """All that the source has. Raises NotJsonError where it is no UTF-8."""
    file, decoder = Spool(max_size=SPOOLED), getincrementaldecoder("utf-8")()
    is_over = False
    while not is_over:
        piece = source.read(PIECE)
        is_over = not piece
        try:
            decoder.decode(piece, final=is_over)
        except UnicodeDecodeError:
            raise NotJsonError(f"The body is not JSON: it is not UTF-8, behind byte {file.tell()}.") from None
        file.write(piece)
    return file


def _text(file: Spool) -> bytes | mmap:
    """What it holds; of a large one as the system has it, and not in the memory of this process."""
    if file.tell() > SPOOLED:
        return mmap(file.fileno(), 0, access=ACCESS_READ)
    file.seek(0)
    return file.read()
