"""The input file of a batch: all of its lines checked, or read slice by slice. Read from the storage, line by line."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from django.conf import settings
from django.core.files.storage import default_storage

from core.values import NotJsonError, loads
from jobs import operations as jobs
from jobs.errors import JobsError
from openai_api.domain import batches as domain
from openai_api.domain.batches import Line, LineError
from openai_api.models import File

_AROUND_A_PAYLOAD: Final = 10_000  # characters of a line beside the call's body


@dataclass(slots=True, kw_only=True)
class Checked:
    """How many lines a file has, and what is wrong with it, in OpenAI's form; nothing of it is kept if anything is."""

    lines: int = 0
    errors: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Lines that become jobs together, and the bytes of the file between which they lie."""

    begin: int
    end: int
    lines: list[Line]


def check(file: File | None, *, endpoint: str, models: Collection[str]) -> Checked:
    """Look at all lines of a file, for a batch of calls at this path and of these models. Of a bad one MOST_ERRORS
    errors are listed, each with its line."""
    checked, seen = Checked(), set[str]()
    try:
        for number, text, _ in _lines(file, at=0):
            checked.lines += 1
            _note(checked, number, text, seen=seen, endpoint=endpoint, models=models)
            if len(checked.errors) >= domain.MOST_ERRORS or checked.lines > domain.MOST_LINES:
                break
    except FileNotFoundError:
        return _refused("file_not_found", "The input file is there no more.")
    if checked.lines > domain.MOST_LINES:
        return _refused("too_many_lines", f"A batch has at most {domain.MOST_LINES} lines.")
    return checked if checked.lines else _refused("empty_file", "The input file has no lines.")


def slices(file: File | None, *, endpoint: str, at: int) -> Iterator[Read]:
    """The lines of a checked file from this byte on, so many at a time as one transaction stores."""
    lines: list[Line] = []
    begin = end = at
    for _, text, end in _lines(file, at=at):
        lines.append(_line(text, endpoint=endpoint, models=None))
        if len(lines) >= domain.LINES_OF_SLICE or end - begin >= domain.BYTES_OF_SLICE:
            yield Read(begin=begin, end=end, lines=lines)
            begin, lines = end, []
    if lines:
        yield Read(begin=begin, end=end, lines=lines)


def custom_ids(file: File | None, *, at: int) -> Iterator[str]:
    """The names of the lines from this byte on; none of a file that is there no more."""
    try:
        for _, text, _ in _lines(file, at=at):
            yield str(loads(text)["custom_id"])
    except FileNotFoundError:
        return


def _note(
    checked: Checked, number: int, text: bytes, *, seen: set[str], endpoint: str, models: Collection[str]
) -> None:
    try:
        line = _line(text, endpoint=endpoint, models=models)
        if line.custom_id in seen:
            raise LineError("duplicate_custom_id", "custom_id: an earlier line has this one.", param="custom_id")
        seen.add(line.custom_id)
        jobs.check_payload(line.call.payload)
    except LineError as error:
        checked.errors.append(error.at(number))
    except JobsError as refusal:
        checked.errors.append(LineError(refusal.code, refusal.message, param="body").at(number))


def _line(text: bytes, *, endpoint: str, models: Collection[str] | None) -> Line:
    if len(text) > _longest():
        raise LineError("line_too_long", f"A line has at most {_longest()} bytes.")
    try:
        value = loads(text)
    except NotJsonError as refusal:
        message = refusal.message.replace("The body is", "This line is")
        raise LineError("invalid_json_line", message) from None
    return domain.line(value, endpoint=endpoint, models=models)


def _longest() -> int:
    return int(settings.JOBFARM["PAYLOAD_BYTES"]) + _AROUND_A_PAYLOAD


def _lines(file: File | None, *, at: int) -> Iterator[tuple[int, bytes, int]]:
    """The lines that are not blank: number (from the first that is read), bytes, and where the next one begins. One
    that is too long is cut a byte after that. Raises FileNotFoundError."""
    if file is None:
        raise FileNotFoundError
    with default_storage.open(file.stored_as) as content:
        content.seek(at)
        number, end = 0, at
        while text := content.readline(_longest() + 1):
            number, end = number + 1, end + len(text)
            is_cut, rest = len(text) > _longest() and not text.endswith(b"\n"), text
            while is_cut and rest and not rest.endswith(b"\n"):
                rest = content.readline(_longest())
                end += len(rest)
            if text.strip():
                yield number, text, end


def _refused(code: str, message: str) -> Checked:
    return Checked(errors=[{"code": code, "line": None, "message": message, "param": None}])
