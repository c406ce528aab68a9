"""The files that a batch ends with: the answers, and the errors. A line of the input is in one of them, once."""

import json
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any, Final

from django.contrib.auth.models import User
from django.core.files import File as Content

from core.large_json import PLACEHOLDER
from jobs import operations as jobs
from openai_api import operations, queries
from openai_api.domain import ANSWER_FILE
from openai_api.domain.batches import BatchStatus, Ended, answered, unanswered
from openai_api.domain.files import OUTPUT
from openai_api.errors import BrokenAnswer
from openai_api.models import Batch, File, HookDecision, Slice
from openai_api.operations import call_hooks, files, inputs

_READ_AT_ONCE: Final = 100  # jobs: a result has a megabyte at most
_LONGEST_REFERENCE: Final = 10_000  # characters of a result that names a file, with the answer's usage
_ANY_BYTES: Final = 2**62  # quotas bound what batches write


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Uploads of the answers and of the errors; None where there are none."""

    output: Any
    errors: Any


def write(batch: Batch) -> Written:
    """Write the files of a batch whose jobs have ended, in the order of its input. Reads some jobs at a time, and keeps
    lines in temporary files. Raises QuotaReached where their owner has no room for them."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        for is_answer, line in _lines(batch):
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


def keep(batch: Batch, written: Written, *, until: datetime) -> tuple[File | None, File | None]:
    """Make files of what was written for this batch, in the caller's transaction."""
    name = f"{batch.public_id}_%s.jsonl"
    return (_keep(written.output, name % "output", until=until), _keep(written.errors, name % "error", until=until))


def _lines(batch: Batch) -> Iterator[tuple[bool, str]]:
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
        for custom_id in inputs.custom_ids(batch.input_file, at=batch.read_to):
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
    return None if upload is None else files.keep(upload, name=name, purpose=OUTPUT, until=until)
