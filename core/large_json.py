"""Bodies in JSON that may be large: read where they lie on a disk, and what is large cut out, so that nobody holds all
of it.

In its place stands a placeholder, which says to people and programs what was there. That is all it does: where the
parts belong is said by their paths, so that a body which has such an object of its own is left as it is.
"""

import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any, Final

from core import json_text, values
from core.json_text import PIECE, SPOOLED, JsonTokens, Slice, Source, Spool
from core.refusal import Refusal
from core.values import NotJsonError

Path = tuple[str | int, ...]
PLACEHOLDER: Final = "jobfarm_part"
ANY: Final = None  # in the path to where parts are cut: each entry of a list
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
        return io.BufferedReader(Slice(self.file, self.start, self.size), SPOOLED)


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
    is_object: bool
    parts: list[Part] = field(default_factory=list)
    whole: Part | None = None


class _Reader(JsonTokens):
    """Reads a text once, from its first byte to its last."""

    def __init__(self, source: Source, cutting: Cutting) -> None:
        super().__init__(source)
        self._cutting = cutting
        self._is_own = bool(cutting.at)  # whether a root may be cut out as a whole
        self._steps = 0
        self._levels = 0
        self._path: list[str | int] = []
        self._root: _Root | None = None
        self._cuts: list[tuple[int, int, bytes]] = []  # from where to where, and what stands there instead
        self._around = Spool(max_size=SPOOLED)  # the parts that have others cut out of them
        self.roots: list[tuple[Path, _Root]] = []

    def read(self, most: int) -> Any:
        self._value(self._cutting.at)
        if self.peek():
            self.refuse("something follows the value")
        if (size := self._length(0, 0)) > most:
            raise LargeBodyError(what=self._cutting.subject, limit=most, size=size)
        return values.loads(b"".join(self._pieces(0, 0)))

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
            values.loads(self.match(json_text.ONE_SCALAR, "a value was expected"))

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
                for name in json_text.NAMES.findall(self.run(json_text.FIELDS)):
                    self._name(name.decode(), names)
            self.peek()
            key = json.loads(self.match(json_text.STRING, "a name was expected"))
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
                number += len(json_text.ENTRY.findall(self.run(json_text.ENTRIES)))
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
            self.peek()
            start, cuts, parts = self.position, len(self._cuts), len(self._root.parts)
            self._value(way)
            if self._length(start, cuts) > self._cutting.over:
                self._cut_out(self._root, start, cuts, parts)
        self._path.pop()

    def _root_value(self) -> None:
        place, self._path = tuple(self._path), []
        root = self._root = _Root(is_object=self.peek() == b"{")
        start, cuts = self.position, len(self._cuts)
        self._value(None)
        if self._is_own:
            self._check_own(root, start, cuts)
        if root.parts:
            self.roots.append((place, root))
        self._path, self._root = [*place], None

    def _check_own(self, root: _Root, start: int, cuts: int) -> None:
        """Cut out a root that is long as a whole; leave one whole that is only as it is written, in escapes and
        spaces."""
        over, most, size = self._cutting.over, self._cutting.most, self.position - start
        if size > most:
            raise LargeBodyError(what=self._cutting.subject, limit=most, size=size)
        if self._length(start, cuts) > over or (root.parts and not root.is_object and root.parts[0].path):
            self._cut_out(root, start, cuts, 0)
        if root.parts and size <= _ESCAPES * over and self._is_short(start):
            root.parts = []
            del self._cuts[cuts:]
        if root.parts and self._cutting.keeps_whole:
            root.whole = self._part(start, len(self._cuts), ())

    def _is_short(self, start: int) -> bool:
        try:
            return len(values.dumps(values.loads(self.text[start : self.position])).encode()) <= self._cutting.over
        except ValueError:  # whoever takes the value says why
            return True

    def _string(self) -> None:
        start = self.position
        if short := json_text.STRING.match(self.text, start, start + self._cutting.over):
            self.position = short.end()
            return
        self.read_string()
        if self._root is not None:
            self._cut_out(self._root, start, len(self._cuts), len(self._root.parts))

    def _cut_out(self, root: _Root, start: int, cuts: int, parts: int) -> None:
        """Make a part of what was read from here on; it goes before the parts within it."""
        part = self._part(start, cuts, root.parts[parts:])
        root.parts.insert(parts, part)
        self._cuts[cuts:] = [(start, self.position, json.dumps(part.placeholder).encode())]

    def _part(self, start: int, cuts: int, within: Sequence[Part]) -> Part:
        is_around = cuts < len(self._cuts)
        file, at = (self._around, self._around.tell()) if is_around else (self.file, start)
        digest, size = hashlib.sha256(), 0
        for piece in self._pieces(start, cuts):
            digest.update(piece)
            size += len(piece)
            if is_around:
                file.write(piece)
        texts = sum(each.size for each in within if not each.begins.startswith("data:"))
        begins = self.text[start : start + _SHOWN].decode("utf-8", "ignore").lstrip('"')
        path = (*self._path,)
        return Part(path=path, size=size, sha256=digest.hexdigest(), begins=begins, start=at, file=file, within=texts)

    def _length(self, start: int, cuts: int) -> int:
        """How long it is from here on, with what stands instead of these cuts and the later ones."""
        return self.position - start + sum(len(instead) - (end - begin) for begin, end, instead in self._cuts[cuts:])

    def _pieces(self, start: int, cuts: int) -> Iterator[bytes]:
        for begin, end, instead in [*self._cuts[cuts:], (self.position, self.position, b"")]:
            for at in range(start, begin, PIECE):
                yield self.text[at : min(at + PIECE, begin)]
            yield instead
            start = end
