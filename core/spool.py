"""Temporary files of which several read parts."""

import io
from tempfile import SpooledTemporaryFile
from typing import IO, Any


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
