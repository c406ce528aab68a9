"""The live picture of the front page: a job of the farm's own, painted by its demonstrator while somebody looks.

It shows a job that is made for this and no other. Its prompt is one of a few; it has no owner, a queue that only the
demonstrator of `manage.py farm` serves, and the one link (`/jobs/shared/demonstration/`) by which visitors reach it.
"""

import random
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from django.conf import settings
from django.db import InternalError, transaction

from jobs import operations as jobs
from jobs.domain import payloads
from jobs.domain.states import ENDED
from jobs.errors import JobsError
from jobs.models import Job, ResultFile
from jobs.queries import fleet, pages, reads
from postgres import clock

QUEUE: Final = "demonstration"
TOKEN: Final = "demonstration"  # noqa: S105  # no secret: what it shows is for everybody
KIND: Final = "image"
TOPIC: Final = f"link:{TOKEN}"
EVERY: Final = timedelta(seconds=60)  # at most one picture in this time, however many look
TIMEOUT_S: Final = 60.0  # the demonstrator takes some five seconds
PROMPTS: Final = (
    "a lighthouse in the evening", "a paper boat on a river", "clouds over a harbour", "a fox in the snow",
    "a greenhouse at night", "a train through the mountains",
)  # fmt: skip
_RNG = random.SystemRandom()


def is_shown() -> bool:
    return bool(settings.JOBFARM["PUBLIC_NUMBERS"])


def current() -> Job | None:
    return reads.shared(TOKEN)


def picture(job: Job) -> ResultFile | None:
    files = {file.name: file for file in pages.latest_files(job.pk)}
    names = payloads.pictures(list(files), has_ended=job.status in ENDED)
    return files[names[0]] if names else None


def is_served() -> bool:
    """Whether the farm's demonstrator is live and takes such jobs."""
    return bool(_demonstrators())


def start_if_due(*, every: timedelta = EVERY, choose: Callable[[tuple[str, ...]], str] = _RNG.choice) -> bool:
    """Have a picture painted, if the settings show it, an idle demonstrator is live and `every` has passed since the
    last one was submitted; whether that was done. Several calls at once start one job. It raises no refusal."""
    if not is_shown():
        return False
    last = current()
    is_recent = last is not None and (last.status not in ENDED or clock.now() - last.created_at < every)
    if is_recent or all(row.jobs for row in _demonstrators()):
        return False
    try:
        _start(choose(PROMPTS))
    except (JobsError, InternalError):  # it is painted already, the farm is full, or its database only reads
        return False
    return True


@transaction.atomic
def _start(prompt: str) -> None:
    job = jobs.submit(
        KIND, {"prompt": prompt}, queue=QUEUE, unique_key=TOKEN, max_attempts=1, timeout_s=TIMEOUT_S,
        expires_at=clock.now() + EVERY,
    )  # fmt: skip
    jobs.move_link(TOKEN, job.pk)


def _demonstrators() -> list[fleet.WorkerRow]:
    rows = fleet.worker_rows(viewer=pages.EVERYBODY, queue=QUEUE)
    return [row for row in rows if row.is_alive and not row.is_drained and row.worker.owner_id is None]
