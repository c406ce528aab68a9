"""The types that payloads are made of, and how one is read.

A field without a default is one that its handler cannot do without. Every other one is optional: a body may leave it
out, and one that cannot be read counts as left out (docs/adr/0023).
"""

import copy
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Annotated, Any, Final, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from webhooks import errors
from webhooks.domain.staleness import EPOCH

T = TypeVar("T")

LARGEST = 2**63 - 1  # of a bigint
_LONGEST_MOMENT = 40


def _cut(length: int) -> AfterValidator:
    return AfterValidator(lambda text: text if len(text) <= length else text[: length - 1] + "…")


def _moment(value: Any) -> datetime:
    """An ISO 8601 text with its offset."""
    if not isinstance(value, str) or len(value) > _LONGEST_MOMENT:
        raise ValueError("should be a moment as ISO 8601 text")
    try:
        moment = datetime.fromisoformat(value)
        return _aware(moment).astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("should be a moment as ISO 8601 text with an offset") from None


def _aware(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("has no offset")
    return moment


def _since_epoch(value: Any, unit: timedelta) -> datetime:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"should be a number: {'seconds' if unit.seconds else 'milliseconds'} since 1970")  # noqa: TRY004 (pydantic gathers ValueErrors)
    try:
        return EPOCH + value * unit
    except (OverflowError, ValueError):
        raise ValueError("lies outside of all calendars") from None


def _millis(value: Any) -> datetime:
    return _since_epoch(value, timedelta(milliseconds=1))


def _seconds(value: Any) -> datetime:
    return _since_epoch(value, timedelta(seconds=1))


def _either(value: Any) -> datetime:
    return _moment(value) if isinstance(value, str) else _seconds(value)


def _digits(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20 else value


Moment = Annotated[datetime, BeforeValidator(_moment)]
Millis = Annotated[datetime, BeforeValidator(_millis)]
Seconds = Annotated[datetime, BeforeValidator(_seconds)]
MomentOrSeconds = Annotated[datetime, BeforeValidator(_either)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=200)]
# Stripe sends the id of a thing, or where an endpoint asks for it the thing itself.
IdOrResource = Annotated[Id, BeforeValidator(lambda value: value.get("id") if isinstance(value, dict) else value)]
Number = Annotated[int, Field(ge=0, le=LARGEST)]
NumberOrDigits = Annotated[int, BeforeValidator(_digits), Field(ge=0, le=LARGEST)]
Amount = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
Short = Annotated[str, _cut(255)]  # longer ones are shortened: no sender's title is worth a dead letter
Long = Annotated[str, _cut(2000)]
# Where a sender may send null, which then says the same as "" or [].
Maybe = Annotated[Short, BeforeValidator(lambda value: "" if value is None else value)]
Many = Annotated[list[T], BeforeValidator(lambda value: [] if value is None else value)]


class Absent(Enum):
    """What a body leaves out; null, in contrast, means that there is none."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
_ITS_OWN: Final = object()


class Payload(BaseModel):
    """A part of a body. Unknown fields are ignored; a text is a text and a number a number, nothing is converted."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    def sent(self, field: str, value: Any = _ITS_OWN) -> Any:
        """`value` if the body has this field, else ABSENT; without a `value` that of the field. Raises KeyError for a
        field that this payload does not know."""
        if field in self.model_fields_set:
            return getattr(self, field) if value is _ITS_OWN else value
        type(self).model_fields[field]
        return ABSENT

    def columns(self, *fields: str, **renamed: str) -> dict[str, Any]:
        """What of these fields was sent, by the names of their columns: the field's own, or `column="field"`."""
        return {name: self.sent(field) for name, field in (dict(zip(fields, fields, strict=True)) | renamed).items()}


P = TypeVar("P", bound=Payload)


Path = tuple[int | str, ...]  # names within objects and places within lists


class Draft:
    """A document from which parts are taken away; the original stays as it is."""

    def __init__(self, document: object) -> None:
        self.body = document
        self._copies: dict[Path, Any] = {}
        self._gone: set[Path] = set()

    def __len__(self) -> int:
        """How many parts were taken away."""
        return len(self._gone)

    def take_away(self, part: Path) -> bool:
        """Take away a named part of an object, if it is not gone already, by itself or with what it was in. Whether it
        is gone now: the whole document cannot be taken away, nor what is not there."""
        if any(part[:length] in self._gone for length in range(1, len(part) + 1)):
            return True
        try:
            del self._copy(part[:-1])[part[-1]]
        except (KeyError, IndexError, TypeError):
            return False
        self._gone.add(part)
        return True

    def _copy(self, place: Path) -> Any:
        """What is at a place, as a copy of our own within copies of our own; each is copied once."""
        if place not in self._copies:
            if place:
                holder = self._copy(place[:-1])
                holder[place[-1]] = self._copies[place] = copy.copy(holder[place[-1]])
            else:
                self.body = self._copies[place] = copy.copy(self.body)
        return self._copies[place]


def read(model: type[P], body: object, *, unread: list[str] | None = None) -> P:
    """The body as its type promises it.

    An optional field that is not as promised counts as left out, and its name is added to `unread`. Where a needed
    field of an optional part is wrong, the part counts as left out. Raises BadPayload, which names the first field
    that is wrong and needed.
    """
    draft = Draft(body)
    causes: dict[Path, errors.BadPayload] = {}
    while True:
        try:
            payload = model.model_validate(draft.body)
        except ValidationError as error:
            _prune(draft, error, causes)
        else:
            if unread is not None:
                unread.extend(dict.fromkeys(cause.field for cause in causes.values()))
            return payload


def _prune(draft: Draft, error: ValidationError, causes: dict[Path, errors.BadPayload]) -> None:
    """Take away what these errors are about, and remember for each part taken away the error that began it."""
    before = len(draft)
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        place = tuple(detail["loc"])
        message = "should be an object" if detail["type"] == "model_type" else detail["msg"]  # not: of our own class
        cause = causes.get(place) or _bad(place, message)
        part = _optional(place[:-1] if detail["type"] == "missing" else place)
        if not draft.take_away(part):
            raise cause from None
        causes.setdefault(part, cause)
    if len(draft) == before:
        raise _bad((), "cannot be read")  # never seen: it keeps this from going on for ever


def _optional(place: Path) -> Path:
    """The named part that this is or is in: of a list in which one item cannot be read nobody knows the whole."""
    while place and not isinstance(place[-1], str):
        place = place[:-1]
    return place


def _bad(place: Path, message: str) -> errors.BadPayload:
    reason = message.removeprefix("Value error, ")
    return errors.BadPayload(field=".".join(map(str, place)) or "body", reason=reason[:1].lower() + reason[1:])
