"""Values as they come from outside, each refused at the door if PostgreSQL could not hold it."""

import json
import math
from datetime import UTC, datetime
from json import encoder
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict

from core.refusal import Refusal

BIGINT = 2**63 - 1
INTEGER = 2**31 - 1
NO_NUL = r"^[^\x00]*$"  # of a parameter in an address; of a body it is `Text`
# Arrays and objects around one another; a number or a text has depth 0, `[]` and `[1]` depth 1, `[[]]` depth 2.
# jsonb nests by recursion and refuses at the server's stack depth; json.dumps refuses at about 1,000.
_MOST_LEVELS = 100
# What json.JSONEncoder.encode makes anew for each value, which takes twice as long as to write a short one.
_write = encoder.c_make_encoder(  # type: ignore[attr-defined]  # as JSONEncoder.iterencode makes it
    None, json.JSONEncoder().default, encoder.encode_basestring, None, ":", ",", False, False, False
)


class Body(BaseModel):
    """A body of a request: unknown fields are refused, so that a misspelt one is noticed."""

    model_config = ConfigDict(extra="forbid")


class NotJsonError(Refusal, ValueError, code="not_json", http_status=400):
    """The body is not JSON."""


def loads(text: str | bytes) -> Any:
    """The JSON value that `text` says.

    Raises NotJsonError, also for what Python takes and JSON does not have.

    That is NaN and the infinities, numbers beyond a double such as 1e400, nesting that exhausts the parser, and a name
    twice in one object.
    """
    try:
        return _read(text)
    except ValueError as error:
        raise NotJsonError(f"The body is not JSON: {error}.") from None


def storable(text: str) -> Any:
    """The JSON value that `text` says, which jsonb can hold. Raises ValueError, with why."""
    dumps(value := _read(text))
    return value


def dumps(value: Any) -> str:
    """The JSON text of a value, ready for a jsonb column, which takes less than Python's json gives.

    Raises ValueError, with why, for what is no JSON, NaN and infinities, NUL characters, lone surrogates, numbers of
    more than 4096 bits, and more than 100 arrays and objects around one another.
    """
    try:
        _check(value, depth=0)
        text = "".join(_write(value, 0))
        if not text.isascii():
            text.encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(_why(error)) from None
    return text


def without_empty(parameters: Any) -> Any:
    """A query's parameters without those that are empty: `?status=` asks for nothing. For a model's validator."""
    if not isinstance(parameters, dict):
        return parameters
    return {name: value for name, value in parameters.items() if value != ""}


def row_id(text: str) -> int | None:
    """The number of a row that a person looks for, "2979" or "#2979"; None for what is none."""
    digits = text.strip().removeprefix("#")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 18 else None


class NamedTwice(ValueError):
    """An object of JSON that has a name twice: which of the two counts, readers do not agree upon."""


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these names and values. Raises NamedTwice."""
    built = dict(pairs)
    if len(built) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise NamedTwice(f"an object has the name {twice[:50]!r} twice")
    return built


def _read(text: str | bytes) -> Any:
    try:
        if not isinstance(text, str):
            text = text.decode(json.detect_encoding(text), "surrogatepass")
        return _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(_why(error)) from None


def _check(value: Any, *, depth: int) -> None:
    """Raise for what jsonb cannot hold. `depth`: how many arrays and objects are around this value."""
    if depth == _MOST_LEVELS and isinstance(value, dict | list | tuple):
        raise ValueError(f"it has more than {_MOST_LEVELS} levels of arrays and objects")
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_key(key)
            _check(item, depth=depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            _check(item, depth=depth + 1)
    elif isinstance(value, int) and abs(value).bit_length() > 4096:
        raise ValueError("it holds a number of more than 4096 bits")


def _check_key(key: object) -> None:
    if not isinstance(key, str):
        raise TypeError(f"its keys must be strings, got {type(key).__name__}")
    _check_text(key)


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise ValueError("it holds a NUL character")


def _why(error: Exception) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "it holds half of a surrogate pair"
    if isinstance(error, RecursionError):
        return "it is nested too deep"
    if str(error).startswith("Out of range float"):
        return "it holds NaN or an infinity"
    # What Python says of a longer number speaks of Python.
    return "it holds a number of more than 4,300 digits" if "integer string" in str(error) else str(error)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("it holds a number beyond the range of a double")
    return number


def _storable(text: str) -> str:
    _check_text(text)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it holds half of a surrogate pair") from None
    return text


def _only_text(value: object) -> object:
    """Only text is a moment: pydantic would also read a bare number as seconds since 1970."""
    if not isinstance(value, str):
        raise ValueError('a moment is a text such as "2030-01-31T12:00:00Z"')  # noqa: TRY004 (pydantic takes ValueError)
    return value


def _in_range(value: datetime) -> datetime:
    if value.tzinfo is None:
        raise ValueError("a moment needs its offset, such as Z or +01:00")
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        moment = None
    if moment is None or not 1970 <= moment.year < 3000:
        raise ValueError("the year must lie between 1970 and 2999")
    return moment


Text = Annotated[str, Strict(), AfterValidator(_storable)]
Name = Annotated[Text, Field(min_length=1, max_length=100)]
Moment = Annotated[datetime, BeforeValidator(_only_text), AfterValidator(_in_range)]
Whole = Annotated[int, Strict()]
# A number in JSON may lack its decimal point, so an int is taken; a bool or a text is not.
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]


def words(text: str) -> list[str]:
    return [word for each in text.split(",") if (word := each.strip())]


def moment(text: str) -> datetime | None:
    """The moment that a text says, in UTC where it names no zone; None for what is none."""
    try:
        parsed = datetime.fromisoformat(text)
        return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def duration(seconds: float) -> str:
    """A length of time as people say it: "40 s", "3 min", "2 h 5 min", "3 days"; "∞" for what has no end."""
    if not math.isfinite(seconds):
        return "∞"
    whole = round(seconds) or math.ceil(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min"
    if whole < 2 * 86400:
        hours, minutes = whole // 3600, whole % 3600 // 60
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{whole // 86400} days"


_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=unique_names)
