"""Statements about what attempts handed in and kept: which files, how much, which of them wrote anything.

And those that delete, or redact, what ended jobs were given and gave (docs/adr/0140).
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import starmap
from typing import Any, Final

from django.db.models import Count, Q, QuerySet, Sum

from jobs.domain import outputs
from jobs.domain.kinds import MOST_REDACTED_BYTES
from jobs.domain.states import Status
from jobs.models import Attempt, Job, Outcome, OutputChunk, ResultFile, Upload
from postgres.statements import Row, load

_OF_JOB: Final = re.compile(r"jobs/([0-9]{1,18})/")
_OF_UPLOAD: Final = re.compile(r"jobs/(?:inputs|parts)/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_WRITES_ITS_OWN: Final = frozenset({Status.IN_PROGRESS, Status.SUCCESS})


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesUsed:
    """How many files, of how many bytes, an attempt and all attempts of its job handed in, but for one to replace."""

    files: int
    bytes: int
    files_of_job: int
    bytes_of_job: int
    files_replaced: int
    bytes_replaced: int


NOTHING: Final = FilesUsed(files=0, bytes=0, files_of_job=0, bytes_of_job=0, files_replaced=0, bytes_replaced=0)


def files_used(job_id: int, *, attempt: int, but_for: str) -> FilesUsed:
    """What is there of a job and of this attempt, but for this attempt's file of that name, which is replaced."""
    replaced = Q(attempt=attempt, name=but_for)
    own = Q(attempt=attempt) & ~replaced
    used = ResultFile.objects.filter(job_id=job_id).aggregate(
        files=Count("pk", filter=own), bytes=Sum("size", filter=own, default=0),
        files_of_job=Count("pk", filter=~replaced), bytes_of_job=Sum("size", filter=~replaced, default=0),
        files_replaced=Count("pk", filter=replaced), bytes_replaced=Sum("size", filter=replaced, default=0),
    )  # fmt: skip
    return FilesUsed(**{name: int(value) for name, value in used.items()})


def owner_of(job_id: int) -> int | None:
    """Whose job this is; None: nobody's, or it is gone."""
    return Job.objects.filter(pk=job_id).values_list("owner_id", flat=True).first()


def status(job_id: int) -> dict[str, Any] | None:
    """`outputs.job_status`; None for a job that is gone."""
    return next(starmap(outputs.job_status, load("jobs", "status").run({"job": job_id})), None)


def output_after(job_id: int, attempt: int, seq: int, *, most: int) -> list[Row]:
    """The pieces of output behind this one, `most` of them at most: rows of `attempt`, `seq` and `text`."""
    params = {"job": job_id, "attempt": attempt, "seq": seq, "most": most}
    return load("jobs", "output_after").run(params)


def fences_that_wrote(job_id: int, fences: Iterable[int]) -> set[int]:
    """Those of these claims of a job that wrote any output: it begins with piece 0, so the key leads there."""
    first = OutputChunk.objects.filter(job_id=job_id, attempt__in=list(fences), seq=0)
    return set(first.values_list("attempt", flat=True))


def fence_to_read(job_id: int) -> int | None:
    """Whose output is shown of a job where nobody says which: of one that runs or succeeded its own claim's, of any
    other the last that wrote anything. 0 for a job that nobody had, None for one that is gone."""
    stands = ("live__lease_secret", "live__fence", "outcome__status", "outcome__fence")
    job = Job.objects.filter(pk=job_id).only("pk", *stands).first()
    if job is None or job.status in _WRITES_ITS_OWN:
        return None if job is None else job.fence
    written = OutputChunk.objects.filter(job_id=job_id).order_by("-attempt")
    latest: int | None = written.values_list("attempt", flat=True).first()
    return job.fence if latest is None else latest


def end_of_output(job_id: int, *, fence: int, characters: int) -> tuple[str, bool]:
    """The last characters that this claim wrote, and whether something came before them."""
    written = OutputChunk.objects.filter(job_id=job_id, attempt=fence).order_by("-seq")
    pieces: list[str] = []
    room = characters
    for text in written.values_list("text", flat=True).iterator(chunk_size=100):
        pieces.append(text)
        room -= len(text)
        if room < 0:
            break
    return "".join(reversed(pieces))[-characters:], room < 0


def unknown_files(names: Sequence[str]) -> list[str]:
    """Those of these names in the storage that neither a result file nor an upload has, in their order. Asked by the
    ids in them: no index leads to names, so by these only what is left is looked for, which is little."""
    job_ids, upload_ids = ([match[1] for match in map(of.match, names) if match] for of in (_OF_JOB, _OF_UPLOAD))
    left = _without(names, ResultFile.objects.filter(job_id__in=job_ids), Upload.objects.filter(pk__in=upload_ids))
    rows = (table.objects.filter(stored_as__in=left) for table in (ResultFile, Upload))
    return _without(left, *rows) if left else []


def _without(names: Sequence[str], *rows: "QuerySet[Any]") -> list[str]:
    known = {name for each in rows for name in each.values_list("stored_as", flat=True)}
    return [name for name in names if name not in known]


def lock_content(job_ids: Sequence[int]) -> list[Row]:
    """Those of these jobs that have ended and whose content is there still, locked: rows of `id waits patterns`."""
    return load("jobs", "lock_content").run({"ids": sorted(job_ids)})


def delete_content(job_ids: Sequence[int]) -> list[Row]:
    """Delete what these locked jobs were given and gave, or of those that are redacted what lies beside: a row each
    with the names of their stored files and the uploads that they used."""
    return load("jobs", "delete_content").run({"ids": list(job_ids)})


def rewrite_content(job_id: int, change: Callable[[Any], Any]) -> None:
    """Change all texts of this locked job. An output that is longer than MOST_REDACTED_BYTES is deleted."""
    job = Job.objects.whole().get(pk=job_id)
    Job.objects.filter(pk=job_id).update(payload=change(job.payload), inputs=None)
    columns: dict[str, Any] = {"result": change(job.result), "detail": job.detail and change(job.detail)[:200]}
    if job.output_bytes + job.earlier_output_bytes > MOST_REDACTED_BYTES:
        OutputChunk.objects.filter(job_id=job_id).delete()
        columns["next_seq"] = 0
    Outcome.objects.filter(pk=job_id).update(**columns)
    for attempt in Attempt.objects.filter(job_id=job_id).exclude(error=""):
        Attempt.objects.filter(pk=attempt.pk).update(error=change(attempt.error))
    _rewrite_output(job_id, change)


def _rewrite_output(job_id: int, change: Callable[[Any], Any]) -> None:
    """The output of each attempt as one text, since what matches may be in two pieces, in as many pieces again."""
    pieces: dict[int, list[OutputChunk]] = defaultdict(list)
    for piece in OutputChunk.objects.filter(job_id=job_id).order_by("attempt", "seq"):
        pieces[piece.attempt].append(piece)
    for attempt, written in pieces.items():
        text = change("".join(piece.text for piece in written))
        size = -(-len(text) // len(written))
        for piece in written:
            part = text[piece.seq * size : (piece.seq + 1) * size]
            OutputChunk.objects.filter(job_id=job_id, attempt=attempt, seq=piece.seq).update(text=part)
