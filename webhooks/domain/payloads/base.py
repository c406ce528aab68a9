"""The types that payloads are made of, and how one is read: a body that breaks its promise names the field."""

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

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
    return (
        int(value)
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20
        else value
    )


Moment = Annotated[datetime, BeforeValidator(_moment)]
Millis = Annotated[datetime, BeforeValidator(_millis)]
Seconds = Annotated[datetime, BeforeValidator(_seconds)]
MomentOrSeconds = Annotated[datetime, BeforeValidator(_either)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Number = Annotated[int, Field(ge=0, le=LARGEST)]
NumberOrDigits = Annotated[int, BeforeValidator(_digits), Field(ge=0, le=LARGEST)]
Amount = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
Short = Annotated[str, _cut(255)]  # longer ones are shortened: no sender's title is worth a dead letter
Long = Annotated[str, _cut(2000)]
# Where a sender may send null, which then says the same as "" or [].
Maybe = Annotated[Short, BeforeValidator(lambda value: "" if value is None else value)]
Many = Annotated[list[T], BeforeValidator(lambda value: [] if value is None else value)]


class Payload(BaseModel):
    """A part of a body. Unknown fields are ignored; a text is a text and a number a number, nothing is converted."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)


P = TypeVar("P", bound=Payload)


def read(model: type[P], body: object) -> P:
    """The body as its type promises it. Raises BadPayload, which names the first field that is not as promised."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        field = ".".join(str(part) for part in first["loc"]) or "body"
        reason = first["msg"].removeprefix("Value error, ")
        raise errors.BadPayload(field=field, reason=reason[:1].lower() + reason[1:]) from None
