"""Reading a body: what it says, what it leaves out, and what its handler cannot do without; and which of two states of
one resource is the newer.

Every field is optional unless it is asked for by `need`. One that is not of its kind counts as left out, and its name
is noted (docs/adr/0023). Unknown fields are ignored; a text is a text and a number a number.

Deliveries come late, twice and out of order. Each state has a key, and the greater one wins: if each column keeps, of
all states that ever said something of it, what the one with the greatest key says, then a row ends the same whatever
the order was (docs/adr/0023 says what each sender's key is made of, and why it is compared for each column).
"""

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote, urlsplit

from webhooks.errors import BadPayload

T = TypeVar("T")

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LARGEST: Final = 2**63 - 1  # of a bigint
_LONGEST_MOMENT: Final = 40
_LONGEST_ID: Final = 200
_MILLISECONDS: Final = 10**11  # a greater number is of milliseconds: as seconds it lies in the year 5138


class Absent(Enum):
    """What a body leaves out; null, in contrast, means that there is none."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """How a value is read: `read` raises ValueError for one that is not of this kind; `null` is what null says."""

    read: Callable[[Any], T]
    null: Any = None


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _text(most: int) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError("should be a text")  # noqa: TRY004 (one type of error for all that is wrong)
        return cut(value, most)

    return read


def _id(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_ID:
        raise ValueError(f"should be a text of 1 to {_LONGEST_ID} characters")
    return value


def _amount(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LARGEST:
        raise ValueError("should be a whole number")
    return value


def _number(value: Any) -> int:
    is_text_of_digits = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20
    number = _amount(int(value) if is_text_of_digits else value)
    if number < 0:
        raise ValueError("should not be negative")
    return number


def _measure(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError("should be a number")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("should be true or false")  # noqa: TRY004
    return value


def _moment(value: Any) -> datetime:
    """An ISO 8601 text with its offset; or seconds, or milliseconds, since 1970."""
    try:
        if not isinstance(value, str):
            number = _measure(value)
            return EPOCH + number * timedelta(**{"milliseconds" if number >= _MILLISECONDS else "seconds": 1})
        if len(value) <= _LONGEST_MOMENT and (moment := datetime.fromisoformat(value)).tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError("should be a moment: ISO 8601 text with an offset, or a time since 1970")


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError("should be an object")  # noqa: TRY004
    return value


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [_object(item) for item in _list(value)]


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("should be a list")  # noqa: TRY004
    return value


TEXT = Kind(_text(255), null="")  # a longer one is shortened: no sender's title is worth a dead letter
LONG = Kind(_text(2000), null="")
ID = Kind(_id)
# Stripe sends the id of a thing, or where an endpoint asks for it the thing itself.
REFERENCE = Kind(lambda value: _id(value.get("id") if isinstance(value, Mapping) else value))
NUMBER = Kind(_number)
AMOUNT = Kind(_amount)
MEASURE = Kind(_measure)
FLAG = Kind(_flag)
MOMENT = Kind(_moment)
OBJECT = Kind(_object)
OBJECTS: Kind[Any] = Kind(_objects, null=[])
ANY: Kind[Any] = Kind(lambda value: value)
TEXTS = Kind(lambda value: [TEXT.read(item) for item in _list(value)], null=[])
COUNT = Kind(lambda value: len(_list(value)), null=0)
LINK = Kind(lambda value: https(_text(LONGEST_LINK + 1)(value)), null="")


def each(name: str) -> Kind[list[str]]:
    return Kind(lambda value: [TEXT.read(item.get(name)) for item in _objects(value)], null=[])


_KINDS: Final[Mapping[str, Kind[Any]]] = {
    "text": TEXT, "long": LONG, "id": ID, "reference": REFERENCE, "number": NUMBER, "amount": AMOUNT, "flag": FLAG,
    "moment": MOMENT, "texts": TEXTS, "count": COUNT, "link": LINK,
}  # fmt: skip
Fields = dict[str, tuple[str, Kind[Any]]]


def fields(*, each_text: str = "", **of_kind: str) -> Fields:
    """What of a body a document has: `text="title author=user.login"` is two fields, the second found at a path. The
    keywords are names of kinds. Of a list of objects `each_text="labels=labels.name"` takes one text of each."""
    declared: Fields = {}
    for kind, names in of_kind.items():
        for field, path in map(_named, names.split()):
            declared[field] = path, _KINDS[kind]
    for field, path in map(_named, each_text.split()):
        place, _, name = path.rpartition(".")
        declared[field] = place, each(name)
    return declared


def _named(text: str) -> tuple[str, str]:
    field, _, path = text.partition("=")
    return field, path or field


class Part:
    def __init__(self, value: Any, *, unread: list[str], place: str = "") -> None:
        self._value = value
        self._unread = unread
        self._place = place

    def __bool__(self) -> bool:
        return bool(self._value)

    def look(self, path: str, kind: Kind[Any]) -> Any:
        """What is there: ABSENT if nothing is, or nothing of this kind; what null says if it or a holder is null."""
        try:
            value = self._find(path)
            return value if value is ABSENT else kind.null if value is None else kind.read(value)
        except BadPayload as error:
            self._unread.append(error.field)
        except ValueError:
            self._unread.append(self._named(path))
        return ABSENT

    def get(self, path: str, kind: Kind[T]) -> T | None:
        value: T | Absent | None = self.look(path, kind)
        return None if value is ABSENT else value

    def text(self, path: str) -> str:
        return self.get(path, TEXT) or ""

    def moment(self, path: str) -> datetime | None:
        return self.get(path, MOMENT)

    def number(self, path: str) -> int | None:
        return self.get(path, NUMBER)

    def part(self, path: str) -> "Part":
        return self._within(path, self.get(path, OBJECT) or {})

    def first(self, path: str) -> "Part":
        """The first object of the list there, or none."""
        return self._within(f"{path}.0", (self.get(path, OBJECTS) or [{}])[0])

    def need(self, path: str, kind: Kind[T]) -> T:
        """What is there. Raises BadPayload, which names the first field that is missing or wrong."""
        value = self._find(path, is_needed=True)
        try:
            return kind.read(value)
        except ValueError as error:
            raise BadPayload(field=self._named(path), reason=str(error)) from None

    def need_part(self, path: str) -> "Part":
        """The object there. Raises BadPayload."""
        return self._within(path, self.need(path, OBJECT))

    def need_parts(self, path: str) -> "list[Part]":
        """The objects of the list there. Raises BadPayload."""
        return [self._within(f"{path}.{n}", item) for n, item in enumerate(self.need(path, OBJECTS))]

    def document(self, fields: Fields) -> dict[str, Any]:
        values = {name: self.look(path, kind) for name, (path, kind) in fields.items()}
        return {name: value for name, value in values.items() if value is not ABSENT}

    def _find(self, path: str, *, is_needed: bool = False) -> Any:
        value, place = self._value, self._place.rstrip(".")
        for step in path.split("."):
            if value is None and not is_needed:
                return None
            if not isinstance(value, Mapping):
                raise BadPayload(field=place or "body", reason="should be an object")
            place = f"{place}.{step}" if place else step
            if step not in value:
                if is_needed:
                    raise BadPayload(field=place, reason="field required")
                return ABSENT
            value = value[step]
        return value

    def _within(self, path: str, value: Mapping[str, Any]) -> "Part":
        return Part(value, unread=self._unread, place=f"{self._named(path)}.")

    def _named(self, path: str) -> str:
        return f"{self._place}{path}"


LONGEST_LINK = 500
# Printable ASCII without what browsers read in more than one way: blanks, quotes, angle brackets, backslashes.
_PLAIN = re.compile(r"[!#-&(-;=?-\[\]_a-z{-~^]+")


def https(url: str | None) -> str:
    """`url` if it is an https address without a user's name in it, else "". Bodies are hostile: a `javascript:` link,
    one with blanks or control characters, or a very long one is none."""
    if not url or len(url) > LONGEST_LINK or not _PLAIN.fullmatch(url):
        return ""
    try:
        parts = urlsplit(url)
        is_fine = parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc
        parts.port  # noqa: B018 (raises for a port that is none)
    except ValueError:
        return ""
    return url if is_fine else ""


def under(base: str | None, *parts: object) -> str:
    """An address below `base`, with each part quoted; "" if `base` is not https."""
    root = https(base).rstrip("/")
    link = "/".join([root, *(quote(str(part), safe="") for part in parts)])
    return link if root and len(link) <= LONGEST_LINK else ""


def host(url: str | None) -> str:
    """The host (and port) of an http or https address, in lower case; "" if it has none. Tells sites apart."""
    try:
        parts = urlsplit(url or "")
    except ValueError:
        return ""
    netloc = parts.netloc.rpartition("@")[2].lower()
    return netloc[:100] if parts.scheme in {"http", "https"} else ""


def site(url: str | None) -> str:
    """The https address of the site that this address is on; "" if it is not https."""
    return f"https://{host(url)}" if https(url) else ""


KEY_LENGTH: Final = 62
LARGEST_OF_KEY: Final = 10**20 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """How new a state is, by the sender's own account; what is named first counts first.

    `is_fallback`: it stands in until a better one comes, and never replaces one that is none: the sender does not say
    when it was, or what follows counts whatever its moment. `at`: the sender's moment, of the state or of the event.
    `number`: a counter of the sender's that only rises. `rank`: what the event means, for states of the same moment
    (closing comes after opening). `first_wins`: the earliest state stays, for what can happen only once.
    """

    at: datetime
    number: int = 0
    rank: int = 0
    is_fallback: bool = False
    first_wins: bool = False


def state_key(version: Version, columns: Mapping[str, Any]) -> str:
    """The text that sorts, byte by byte, as the states do: always KEY_LENGTH characters, digits and dots first.

    States that their sender does not tell apart are ordered by a digest of what they say, so that every order of
    delivery chooses the same one; the same state has the same key, so that it never replaces itself.
    """
    moment = _bounded((version.at - EPOCH) // timedelta(microseconds=1))
    if version.first_wins:
        moment = LARGEST_OF_KEY - moment
    rank = min(max(version.rank, 0), 9)
    return f"{not version.is_fallback:d}.{moment:020d}.{_bounded(version.number):020d}.{rank}.{digest(columns)}"


def digest(columns: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits that stand for these values. Moments are equal if they are the same instant."""
    text = json.dumps(columns, sort_keys=True, separators=(",", ":"), default=_json)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _bounded(number: int) -> int:
    return min(max(number, 0), LARGEST_OF_KEY)


def _json(value: Any) -> str:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)
