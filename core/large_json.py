"""Bodies in JSON that may be large: read piece by piece, and what is large cut out, so that nobody holds all of it.

In its place stands a placeholder, which says to people and programs what was there. That is all it does: where the
parts belong is said by their paths, so that a body which has such an object of its own is left as it is.
"""

import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any, Final

from core import values
from core.json_tokens import CHARACTERS, ENTRIES, ENTRY, FIELDS, NAMES, ONE_SCALAR, PIECE, STRING, JsonTokens, Source
from core.refusal import Refusal
from core.spool import Slice, Spool
from core.values import NotJsonError

Path = tuple[str | int, ...]
PLACEHOLDER: Final = "jobfarm_part"
ANY: Final = None  # in the path to where parts are cut: each entry of a list
_SPOOLED: Final = 1 << 16
_MOST_LEVELS: Final = 100
_MOST_STEPS: Final = 500_000  # values but simple ones in a row: some microseconds of Python for each
_SHOWN: Final = 40
_ESCAPES: Final = 6  # bytes of JSON for one of what is stored, at most


class LargeBodyError(Refusal, code="too_large", http_status=413):
    """The {what} has more than {limit} bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The JSON text of one value: where it belongs in what it was cut out of, and its hash. `within`: bytes of
    the texts that were cut out of it, but for pictures."""

    path: Path
    size: int
    sha256: str
    begins: str
    start: int
    file: IO[bytes]
    within: int = 0

    @property
    def name(self) -> str:
        """What it is called beside what it was cut out of: the same for the same bytes."""
        return f"part-{self.sha256[:32]}"

    @property
    def placeholder(self) -> dict[str, Any]:
        return {PLACEHOLDER: self.name, "size": self.size + self.within, "begins": self.begins}

    def open(self) -> IO[bytes]:
        """Its bytes, as a file that others read as well: one at a time."""
        return io.BufferedReader(Slice(self.file, self.start, self.size), _SPOOLED)


class Cut(dict[str, Any]):
    """A value with placeholders for its `parts`, those around others first. `whole` is its own text, where that was
    asked for in their place."""

    parts: Sequence[Part] = ()
    whole: Part | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutting:
    """Where in a body parts are cut out of values, from this size on; `keeps_whole`: their whole texts are kept instead
    of the parts. `most`: bytes of one such value."""

    at: tuple[str | None, ...]
    over: int
    most: int
    subject: str
    keeps_whole: bool = False


def read(source: Source, cutting: Cutting, *, most: int) -> Any:
    """The JSON value of a body, with a Cut wherever parts were cut out; without them it has `most` bytes at most.

    Raises NotJsonError, LargeBodyError.
    """
    reader = _Reader(source, cutting)
    body = reader.read(most)
    for place, root in reader.roots:
        if not isinstance(value := _at(body, place), dict):
            raise NotJsonError(f"The {cutting.subject} is no JSON object.")
        cut = Cut(value)
        cut.parts, cut.whole = root.parts, root.whole
        body = _put(body, place, cut)
    return body


def cut(value: Any, cutting: Cutting) -> Any:
    """The value as it is read from its text, cut. Raises ValueError for what no row can hold, LargeBodyError."""
    return read(io.BytesIO(values.dumps(value).encode()), cutting, most=cutting.most)


def gathered(outer: dict[str, Any]) -> dict[str, Any]:
    """This object, as a Cut where values of its fields are."""
    cuts = {name: value for name, value in outer.items() if isinstance(value, Cut)}
    if not cuts:
        return outer
    cut = Cut(outer)
    cut.parts = [replace(part, path=(name, *part.path)) for name, value in cuts.items() for part in value.parts]
    return cut


def put_together(value: Any, parts: Sequence[tuple[Path, Any]]) -> Any:
    """The value with its parts, given where each belongs."""
    for path, part in sorted(parts, key=lambda one: len(one[0])):
        value = _put(value, path, part)
    return value


def placeholders(value: Any, *, but_in: str = "") -> Iterator[dict[str, Any]]:
    """What looks like a placeholder in a value, `but_in` objects of this type: for who estimates its length."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict) and but_in and one.get("type") == but_in:
            continue
        if isinstance(one, dict) and PLACEHOLDER in one:
            yield one
        waiting.extend(one.values() if isinstance(one, dict) else one if isinstance(one, list) else ())


def _at(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _put(value: Any, path: Path, part: Any) -> Any:
    if not path:
        return part
    _at(value, path[:-1])[path[-1]] = part
    return value


@dataclass(slots=True)
class _Root:
    parts: list[Part] = field(default_factory=list)
    whole: Part | None = None
    is_object: bool = False


class _Reader(JsonTokens):
    """Reads a body once, from its first byte to its last: `out` gets it without the parts."""

    def __init__(self, source: Source, cutting: Cutting) -> None:
        super().__init__(source, ahead=cutting.over + (1 << 10))
        self._cutting = cutting
        self._is_own = bool(cutting.at)  # whether a root may be cut out as a whole
        self._mark = self._raw_mark = 0
        self._steps = 0
        self._levels = 0
        self._path: list[str | int] = []
        self._root: _Root | None = None
        self._digest = hashlib.sha256()
        self._raw_start = 0
        self.out, self._parts, self._raw = (Spool(max_size=_SPOOLED) for _ in range(3))
        self.roots: list[tuple[Path, _Root]] = []

    def read(self, most: int) -> Any:
        self._value(self._cutting.at)
        self.skip_space()
        if self.position < len(self.buffer):
            self.refuse("something follows the value")
        self._flush()
        if (size := self.out.tell()) > most:
            raise LargeBodyError(what=self._cutting.subject, limit=most, size=size)
        self.out.seek(0)
        return values.loads(self.out.read())

    def _value(self, way: tuple[str | None, ...] | None) -> None:
        """Read one value. `way`: the rest of the path to where parts are cut; None: it does not lead there."""
        if way == () and self._root is None:
            self._root_value()
            return
        self._step()
        character = self.peek()
        if character == b"{":
            self._nested(self._object, way)
        elif character == b"[":
            self._nested(self._array, way)
        elif character == b'"':
            self._string()
        else:
            values.loads(self.match(ONE_SCALAR, "a value was expected"))

    def _step(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise LargeBodyError(what="number of its values", limit=_MOST_STEPS, size=self._steps)

    def _nested(self, read: Any, way: tuple[str | None, ...] | None) -> None:
        self._levels += 1
        if self._levels > _MOST_LEVELS:
            self.refuse(f"it has more than {_MOST_LEVELS} levels of arrays and objects")
        self.position += 1
        read(way)
        self._levels -= 1

    def _object(self, way: tuple[str | None, ...] | None) -> None:
        if self.peek() == b"}":
            self.position += 1
            return
        names = set[str]()
        while True:
            if not way:
                for name in NAMES.findall(self.run(FIELDS)):
                    self._name(name.decode(), names)
            self.skip_space()
            key = json.loads(self.match(STRING, "a name was expected"))
            self._name(key, names)
            self.expect(b":")
            self._entry(key, way[1:] if way and way[0] == key else None)
            if self.peek() == b"}":
                self.position += 1
                return
            self.expect(b",")

    def _name(self, name: str, names: set[str]) -> None:
        """A name of an object with these others: nobody else looks at those of a value that is cut out."""
        self._step()
        if name in names:
            self.refuse("an object has a name twice")
        names.add(name)

    def _array(self, way: tuple[str | None, ...] | None) -> None:
        if self.peek() == b"]":
            self.position += 1
            return
        number = 0
        while True:
            if not way:
                number += len(ENTRY.findall(self.run(ENTRIES)))
            self._entry(number, way[1:] if way and way[0] is ANY else None)
            number += 1
            if self.peek() == b"]":
                self.position += 1
                return
            self.expect(b",")

    def _entry(self, step: str | int, way: tuple[str | None, ...] | None) -> None:
        """Read the value of a name or an index. The field of a root that has become long is cut out."""
        self._path.append(step)
        if self._root is None or len(self._path) > 1 or not self._root.is_object:
            self._value(way)
        else:
            self.skip_space()
            start, before = self._flush(), len(self._root.parts)
            self._value(way)
            if self._flush() - start > self._cutting.over:
                self._cut_out(start, before)
        self._path.pop()

    def _root_value(self) -> None:
        """Read a value of which parts are cut out."""
        place, self._path, self._root = tuple(self._path), [], _Root()
        root = self._root
        root.is_object = self.peek() == b"{"
        start = self._flush()
        self._raw_mark, self._raw_start, self._digest = self.position, self._raw.tell(), hashlib.sha256()
        self._value(None)
        size = self._flush_raw() - self._raw_start
        length = self._flush() - start
        if self._is_own and (length > self._cutting.over or (root.parts and not root.is_object and root.parts[0].path)):
            self._cut_out(start, 0)
        if size > self._cutting.most:
            raise LargeBodyError(what=self._cutting.subject, limit=self._cutting.most, size=size)
        if root.parts and self._is_own:
            self._take_back_or_keep(root, start, size)
        if root.parts:
            self.roots.append((place, root))
        self._path, self._root = [*place], None

    def _take_back_or_keep(self, root: _Root, start: int, size: int) -> None:
        """A value that is large only as it is written, in escapes and spaces, is left whole."""
        raw = Part(
            path=(), size=size, sha256=self._digest.hexdigest(), begins="", start=self._raw_start, file=self._raw
        )
        if size <= _ESCAPES * self._cutting.over:
            text = raw.open().read()
            self._raw.seek(0, io.SEEK_END)
            try:
                is_short = len(values.dumps(values.loads(text)).encode()) <= self._cutting.over
            except ValueError:  # whoever takes the value says why
                is_short = True
            if is_short:
                self.out.seek(start)
                self.out.truncate()
                self.out.write(text)
                root.parts = []
        root.whole = raw if root.parts and self._cutting.keeps_whole else None

    def _cut_out(self, start: int, before: int) -> None:
        """Make a part of what `out` has from here on; it goes before the parts within it."""
        assert self._root is not None
        size, at, digest = self.out.tell() - start, self._parts.tell(), hashlib.sha256()
        self.out.seek(start)
        while piece := self.out.read(PIECE):
            self._parts.write(piece)
            digest.update(piece)
        self.out.seek(start)
        self.out.truncate()
        within = sum(each.size for each in self._root.parts[before:] if not each.begins.startswith("data:"))
        part = replace(self._part(at, size, digest.hexdigest()), within=within)
        self._root.parts.insert(before, part)
        self.out.write(json.dumps(part.placeholder).encode())

    def _part(self, start: int, size: int, sha256: str) -> Part:
        self._parts.seek(start)
        begins = self._parts.read(_SHOWN).decode("utf-8", "ignore").lstrip('"')
        self._parts.seek(0, io.SEEK_END)
        return Part(path=(*self._path,), size=size, sha256=sha256, begins=begins, start=start, file=self._parts)

    def _string(self) -> None:
        whole = STRING.match(self.buffer, self.position)
        if whole is None and len(self.buffer) - self.position < self.ahead:
            self.refuse("a text has no end, or holds what no text may: a control character, NUL, half of a pair")
        is_long = whole is None or whole.end() - self.position > self._cutting.over
        if is_long and self._root is not None:
            self._long_string(self._root)
        elif whole is None:
            raise LargeBodyError(what="text of one field", limit=self.ahead)
        else:
            self.position = whole.end()

    def _long_string(self, root: _Root) -> None:
        self._flush()
        at, digest = self._parts.tell(), hashlib.sha256()
        pieces = self._pieces_of_string()
        for piece in pieces:
            self._parts.write(piece)
            digest.update(piece)
        root.parts.append(part := self._part(at, self._parts.tell() - at, digest.hexdigest()))
        self._mark = self.position
        self.out.write(json.dumps(part.placeholder).encode())

    def _pieces_of_string(self) -> Iterator[bytes]:
        yield self._taken(self.position + 1)
        while True:
            match = CHARACTERS.match(self.buffer, self.position)
            assert match is not None  # it matches nothing, too
            yield self._taken(match.end())
            if self.buffer[self.position : self.position + 1] == b'"':
                yield self._taken(self.position + 1)
                return
            if len(self.buffer) - self.position > len(rb"\ud800\udc00") or self.is_over:
                self.refuse("a text has no end, or holds what no text may: a control character, NUL, half of a pair")
            self.refill()

    def _taken(self, end: int) -> bytes:
        """What comes until there, for a part and not for `out`."""
        piece, self.position = self.buffer[self.position : end], end
        self._mark = end
        return piece

    def flush_all(self) -> None:
        self._flush()
        self._flush_raw()
        self._mark = self._raw_mark = 0

    def _flush(self) -> int:
        """Write what was read to `out`; how long that is then."""
        self.out.write(self.buffer[self._mark : self.position])
        self._mark = self.position
        return self.out.tell()

    def _flush_raw(self) -> int:
        if self._root is not None and self._is_own:
            piece = self.buffer[self._raw_mark : self.position]
            self._digest.update(piece)
            self._raw.write(piece)
        self._raw_mark = self.position
        return self._raw.tell()
