"""Statements that delete, or redact, what ended jobs were given and gave (docs/adr/0140)."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from jobs.domain.kinds import MOST_REDACTED_BYTES
from jobs.models import Attempt, Job, Outcome, OutputChunk
from postgres.statements import Row, load


def lock_noted(job_ids: Sequence[int]) -> list[Row]:
    """Those of these jobs that have ended and whose content is there still, locked: rows of `id waits patterns`."""
    return load("jobs", "lock_content").run({"ids": sorted(job_ids)})


def delete(job_ids: Sequence[int]) -> list[Row]:
    """Delete what these locked jobs were given and gave, or of those that are redacted what lies beside: a row each
    with the names of their stored files and the uploads that they used."""
    return load("jobs", "delete_content").run({"ids": list(job_ids)})


def rewrite(job_id: int, change: Callable[[Any], Any]) -> None:
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
