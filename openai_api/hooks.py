"""The page of a job shows the batch that it is a line of."""

from collections.abc import Iterable
from functools import partial

from django.urls import reverse

from jobs import operations as jobs
from jobs.operations import Link
from jobs.operations.hooks import Viewer
from openai_api import queries
from openai_api.kinds import CALL
from openai_api.operations import call_hooks, earlier, names

jobs.CHECKS[CALL.name] = names.check_job
jobs.CHORES["fallbacks of calls"] = names.fall_back
jobs.CONTENT["answers of hooks"] = call_hooks.forget

_of_calls = partial(jobs.register_links, kind=CALL.name)


@_of_calls
def batch_of(job_id: int, viewer: Viewer) -> Iterable[Link]:
    """The batch, for its owner and for whoever sees all jobs."""
    batch = queries.of_job(job_id)
    if batch is None or not (batch.owner_id == viewer.pk or jobs.sees_all(viewer)):
        return []
    return [Link(label="Line of", text=batch.public_id, url=batch.get_absolute_url())]


@_of_calls
def hooks_and_hits(job_id: int, viewer: Viewer) -> Iterable[Link]:  # noqa: ARG001  # whoever sees the job may see it
    if row := call_hooks.decisions([job_id]).get(job_id):
        page = reverse("jobs:job", args=[job_id])
        yield from (Link(label="Hook", text=note, url=page) for note in row.notes)
    if count := earlier.hits(job_id):
        times = "once" if count == 1 else f"{count} times"
        yield Link(
            label="Answered", text=f"{times} more", url=reverse("jobs:job", args=[job_id]), note="from the cache"
        )
