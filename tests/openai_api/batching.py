"""Small words for tests of batches: a file of lines, a batch of it, its steps, and a worker that answers."""

import json
from typing import Any

from django.contrib.auth.models import User
from django.core.files.base import ContentFile
from django.core.files.storage import default_storage

from jobs import operations as jobs
from jobs.domain.workers import Facts
from jobs.models import Worker
from openai_api.models import Batch, File
from openai_api.operations import batches, files, steps
from tests import farm

ENDPOINT = "/v1/embeddings"


def line(number: int, **changes: Any) -> dict[str, Any]:
    """A line of an input file; `changes` stand in place of its own fields."""
    body = {"model": "tiny", "input": f"word {number}"}
    return {"custom_id": f"line-{number}", "method": "POST", "url": ENDPOINT, "body": body, **changes}


def text(*lines: Any) -> bytes:
    """The file of these lines; bytes are taken as they are."""
    return b"".join(each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n" for each in lines)


def offering(*models: str, name: str = "w") -> Worker:
    """A live worker that announced these models."""
    jobs.sync()
    worker = farm.worker(name, "openai")
    jobs.introduce(worker, Facts(models=models))
    return farm.stored_worker(worker)


def uploaded(content: bytes, *, user: User, purpose: str = "batch", name: str = "input.jsonl") -> File:
    """A file of this person's."""
    return files.create(ContentFile(content), name=name, purpose=purpose, user=user)


def made(content: bytes, *, user: User, **options: Any) -> Batch:
    """A batch of these lines that nothing has looked at yet."""
    values = {"endpoint": ENDPOINT, "window": "24h", "metadata": None, **options}
    return batches.create(input_file_id=uploaded(content, user=user).public_id, user=user, **values)


def step(batch: Batch) -> Batch:
    """One step of a batch, and how it stands then."""
    batch.refresh_from_db()
    steps.step(batch_id=str(batch.pk), chain=batch.chain)
    batch.refresh_from_db()
    return batch


def answer(worker: Worker, count: int = 1000) -> int:
    """Have the worker answer so many of the jobs that wait; how many it got."""
    claimed = jobs.claim(worker, limit=min(count, 100))
    done = [
        jobs.Finished(job_id=job.id, lease=job.lease, outcome="success", result={"echo": job.payload["body"]["input"]})
        for job in claimed
    ]
    if done:
        jobs.finish(worker, done)
    return len(claimed) + (answer(worker, count - len(claimed)) if claimed and count > len(claimed) else 0)


def to_the_end(batch: Batch, *, by: Worker | None = None) -> Batch:
    """Steps, with a worker that answers in between if one is named, until the batch has ended."""
    for _ in range(1000):
        if not step(batch).is_live:
            return batch
        if by is not None:
            answer(by)
    raise AssertionError(f"the batch is {batch.status} still")


def content(file: File | None) -> list[dict[str, Any]]:
    """The lines of a file; none of one that is not there."""
    if file is None:
        return []
    with default_storage.open(file.stored_as) as stored:
        return [json.loads(each) for each in stored.read().splitlines()]
