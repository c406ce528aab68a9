"""Files of OpenAI's API: uploads of `jobs` that are kept for a time, with a purpose (docs/adr/0084); and those of a
batch: the lines of its input, checked or read slice by slice, and the answers and errors that it ends with, where each
line of the input is once. Read from the storage line by line."""

import json
import os
import tempfile
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import IO, Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.core.files import File as Content
from django.core.files.storage import default_storage
from django.db.models.functions import Now

from core.large_json import PLACEHOLDER
from core.values import NotJsonError, loads
from jobs import operations as jobs
from jobs.errors import JobsError
from openai_api import operations, queries
from openai_api.domain import ANSWER_FILE, batches as domain
from openai_api.domain.batches import LIVE, OUTPUT, BatchStatus, Ended, Line, LineError, answered, unanswered
from openai_api.errors import BrokenAnswer, FileInBatch, UnknownFile
from openai_api.models import Batch, File, HookDecision, Slice
from openai_api.operations import call_hooks
from postgres import clock, transactions

_AROUND_A_PAYLOAD: Final = 10_000  # characters of a line beside the call's body
_READ_AT_ONCE: Final = 100  # jobs: a result has a megabyte at most
_LONGEST_REFERENCE: Final = 10_000  # characters of a result that names a file, with the answer's usage
_ANY_BYTES: Final = 2**62  # quotas bound what batches write


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Uploads of the answers and of the errors; None where there are none."""

    output: Any
    errors: Any


def create(content: "Content[Any]", *, name: str, purpose: str, user: User, expires_s: float | None = None) -> File:
    """Keep a file of this person's until `expires_s` seconds from now, or as long as the farm keeps files.

    It counts for the quotas of its owner. Raises InvalidCall, and PayloadTooLarge and QuotaReached as
    `jobs.operations.upload`.
    """
    domain.check_file(purpose=purpose, name=name)
    lasts = settings.OPENAI["FILE_DAYS"] * 86400.0 if expires_s is None else domain.checked_expiry(expires_s)
    upload = jobs.upload(domain.stored_name(name), content, owner=user, most_bytes=settings.OPENAI["FILE_BYTES"])
    return keep(upload, name=name, purpose=purpose, until=clock.now() + timedelta(seconds=lasts))


@transactions.retried
def keep(upload: Any, *, name: str, purpose: str, until: datetime) -> File:
    """Make an upload that nobody has used yet a file. Killed before this, its bytes go as any unused upload does."""
    jobs.keep_upload(upload.pk, until=until)
    return File.objects.create(
        id=upload.pk, owner_id=upload.owner_id, name=name, purpose=purpose, size=upload.size,
        sha256=upload.sha256, stored_as=upload.stored_as, expires_at=until,
    )  # fmt: skip


def find(public_id: str, *, user: User, lock: bool = False) -> File:
    """This person's file with this id. Raises UnknownFile."""
    file_id = domain.id_of(public_id, prefix="file-")
    file = None if file_id is None else queries.file_of(user, file_id, lock=lock)
    if file is None:
        raise UnknownFile(file=public_id)
    return file


def listed(
    user: User, *, purpose: str | None, after: str | None, limit: int, is_ascending: bool
) -> tuple[Sequence[File], bool]:
    """This person's files, `limit` at most, and whether there are more. Raises UnknownFile for `after`."""
    last = None if after is None else find(after, user=user)
    files = File.objects.filter(owner=user, expires_at__gt=Now())
    files = files if purpose is None else files.filter(purpose=purpose)
    return queries.page(files, after=last, limit=limit, is_ascending=is_ascending)


@transactions.retried
def delete(public_id: str, *, user: User) -> None:
    """Delete a file with its bytes. Raises UnknownFile, FileInBatch while a batch that has not ended reads it, and
    FileInUse while a job has it as an input."""
    file = find(public_id, user=user, lock=True)
    if Batch.objects.filter(input_file=file, status__in=sorted(LIVE)).exists():
        raise FileInBatch
    jobs.delete_upload(file.pk, by=user, also_kept=True)
    file.delete()


def hold(file: File, *, until: datetime) -> None:
    """Keep a file at least until then; in the caller's transaction."""
    if file.expires_at < until:
        jobs.keep_upload(file.pk, until=until)
        File.objects.filter(pk=file.pk, expires_at__lt=until).update(expires_at=until)


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


def write(batch: Batch) -> Written:
    """Write the files of a batch whose jobs have ended, in the order of its input. Reads some jobs at a time, and keeps
    lines in temporary files. Raises QuotaReached where their owner has no room for them."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        for is_answer, line in _ended_lines(batch):
            (output if is_answer else errors).write(line.encode())
        return Written(
            output=_upload(output, "output.jsonl", owner=batch.owner),
            errors=_upload(errors, "errors.jsonl", owner=batch.owner),
        )


def decide(batch: Batch, *, until: float) -> bool:
    """Have hooks decide about the answers of a batch until then; whether they have about all. Raises HookFailed."""
    for part in queries.slices(batch.pk) if call_hooks.is_held(batch.endpoint) else ():
        for first in range(0, len(part.job_ids), _READ_AT_ONCE):
            several = part.job_ids[first : first + _READ_AT_ONCE]
            known = {pk for pk, row in call_hooks.decisions(several).items() if row.is_decided}
            if waiting := [job_id for job_id in several if job_id and job_id not in known]:
                if time.monotonic() > until:
                    return False
                call_hooks.at_once(operations.decide, waiting)
    return True


def keep_written(batch: Batch, written: Written, *, until: datetime) -> tuple[File | None, File | None]:
    """Make files of what was written for this batch, in the caller's transaction."""
    name = f"{batch.public_id}_%s.jsonl"
    return (_keep(written.output, name % "output", until=until), _keep(written.errors, name % "error", until=until))


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


def _ended_lines(batch: Batch) -> Iterator[tuple[bool, str]]:
    ends_as = BatchStatus(batch.ends_as)
    for slice_id in Slice.objects.filter(batch=batch).order_by("read_from").values_list("pk", flat=True):
        part = Slice.objects.get(pk=slice_id)
        pairs = list(zip(part.job_ids, part.custom_ids, strict=True))
        for first in range(0, len(pairs), _READ_AT_ONCE):
            several = pairs[first : first + _READ_AT_ONCE]
            rows = jobs.ended([job_id for job_id, _ in several])
            decisions = call_hooks.decisions(rows) if call_hooks.is_held(batch.endpoint) else {}
            for job_id, custom_id in several:
                row, refusal = rows.get(job_id), part.refused.get(custom_id)
                ended = _ended(job_id, row, decisions.get(job_id), refusal, path=batch.endpoint)
                yield answered(ended, custom_id, ends_as=ends_as)
    if batch.submitted < batch.total:
        for custom_id in custom_ids(batch.input_file, at=batch.read_to):
            yield False, unanswered(custom_id, ends_as=ends_as)


def _ended(job_id: int, row: Any, decision: HookDecision | None, refusal: Any, *, path: str) -> Ended:
    if refusal is not None:
        return Ended(job_id=job_id, status="refused", answer=json.dumps(refusal))
    if decision is not None and decision.status is not None:
        status = "success" if decision.status == 200 else "refused"
        return Ended(job_id=job_id, status=status, answer=json.dumps(decision.answer))
    if row is None:
        return Ended(job_id=job_id, status="deleted")
    try:
        answer = _answer(row, path) if row.status == "success" else row.result
    except BrokenAnswer as broken:
        return Ended(job_id=job_id, status="failed", error=broken.message)
    return Ended(job_id=job_id, status=row.status, answer=answer, error=row.error)


def _answer(row: Any, path: str) -> str:
    """The answer of a call that succeeded, in one line; of one that was larger than a result may be, out of its file.
    Raises BrokenAnswer."""
    result = row.result or "null"
    is_in_file = PLACEHOLDER in result or (len(result) < _LONGEST_REFERENCE and ANSWER_FILE in result)
    if result.startswith("{") and not is_in_file:
        return result
    came = operations.of_success(row.id, row.fence, json.loads(result))
    return json.dumps(operations.content(row.id, came, path=path))


def _upload(content: IO[bytes], name: str, *, owner: User | None) -> Any:
    size = content.seek(0, os.SEEK_END)
    return jobs.upload(name, Content(content), owner=owner, most_bytes=_ANY_BYTES) if size else None


def _keep(upload: Any, name: str, *, until: datetime) -> File | None:
    return None if upload is None else keep(upload, name=name, purpose=OUTPUT, until=until)
