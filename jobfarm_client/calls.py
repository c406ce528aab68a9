"""The calls of a client, each as a flow: which request it makes, and what its answer means."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from jobfarm_client.effects import Emit, Flow, Request
from jobfarm_client.errors import JobFailed
from jobfarm_client.following import Following, FollowingMany
from jobfarm_client.models import Canceled, Job, JobFilters, NewJob, Reason, Skipped, Upload
from jobfarm_client.paths import JOBS, UPLOADS, of_job
from jobfarm_client.retrying import Policy, fetched, repeated

MOST_IN_A_BULK = 1000  # what a farm takes in one call
PAGE = 200  # what it lists in one


def submit(new: NewJob, policy: Policy, *, key: str | None) -> Flow[Job]:
    """Submit one job, once, however often the request has to be sent."""
    return Job.from_json((yield from repeated(_post(JOBS, new.as_json(), key=key or _key()), policy)))


def submit_many(jobs: Iterable[NewJob], policy: Policy, *, key: str | None) -> Flow[list[Job | Skipped]]:
    """Submit them a thousand at a time, each thousand once and whole or not at all."""
    answers: list[Job | Skipped] = []
    key, rest = key or _key(), iter(jobs)
    for number in itertools.count():
        if not (part := [new.as_json() for new in itertools.islice(rest, MOST_IN_A_BULK)]):
            break
        request = _post(f"{JOBS}/bulk", {"jobs": part}, key=f"{key}.{number}")
        answer = yield from repeated(request, policy)
        answers += [
            (Skipped if "error" in entry and "id" not in entry else Job).from_json(entry) for entry in answer["jobs"]
        ]
    return answers


def job(job_id: int, policy: Policy) -> Flow[Job]:
    """Look at a job."""
    return Job.from_json((yield from repeated(Request(path=of_job(job_id)), policy)))


def jobs(filters: JobFilters, policy: Policy) -> Flow[None]:
    """Emit the jobs that fit, the newest first, page by page."""
    cursor: dict[str, int] = {}
    while True:
        request = Request(path=JOBS, params={"limit": PAGE, **filters, **cursor})
        page = yield from repeated(request, policy)
        for entry in page["jobs"]:
            yield Emit(Job.from_json(entry))
        if page["next"] is None:
            return
        cursor = {"cursor": page["next"]}


def cancel(job_id: int, policy: Policy) -> Flow[Canceled]:
    """Cancel a job; what that came to."""
    answer = yield from repeated(_post(of_job(job_id, "/cancel")), policy)
    return Canceled(verdict=answer["verdict"], status=answer["status"])


def retry(job_id: int, policy: Policy, *, key: str | None) -> Flow[Job]:
    """Submit an ended job once more."""
    return Job.from_json((yield from repeated(_post(of_job(job_id, "/retry"), key=key or _key()), policy)))


def run_now(job_id: int, policy: Policy) -> Flow[Job]:
    """Let a job that is due later run now."""
    return Job.from_json((yield from repeated(_post(of_job(job_id, "/run_now")), policy)))


def why(job_id: int, policy: Policy) -> Flow[list[Reason]]:
    """Why a job does not run."""
    answer = yield from repeated(Request(path=of_job(job_id, "/why")), policy)
    return [Reason(code=reason["code"], sentence=reason["sentence"], details=reason) for reason in answer["reasons"]]


def upload(name: str, content: bytes, policy: Policy) -> Flow[Upload]:
    """Store an input file. One that arrived twice is deleted after a day, since no job uses it."""
    headers = {"Content-Type": "application/octet-stream"}
    request = Request(method="POST", path=UPLOADS, params={"name": name}, content=content, headers=headers)
    return Upload.from_json((yield from repeated(request, policy)))


def download(job_id: int, name: str, policy: Policy, *, fence: int | None) -> Flow[bytes]:
    """A result file's bytes."""
    params = {} if fence is None else {"fence": fence}
    request = Request(path=of_job(job_id, f"/files/{quote(name, safe='')}"), params=params)
    return (yield from fetched(request, policy))


def events(job_id: int, policy: Policy, *, last_event_id: str, timeout_s: float | None) -> Flow[None]:
    """Emit the events of a job until it has ended."""
    return Following(job_id, policy, last_event_id=last_event_id, timeout_s=timeout_s).events()


def events_of(job_ids: Sequence[int], policy: Policy, *, last_event_id: str, timeout_s: float | None) -> Flow[None]:
    """Emit the events of many jobs until all have ended."""
    return FollowingMany(job_ids, policy, last_event_id=last_event_id, timeout_s=timeout_s).events()


def wait(job_id: int, policy: Policy, *, timeout_s: float | None) -> Flow[Job]:
    """Wait until a job has ended; the job."""
    yield from events(job_id, policy, last_event_id="", timeout_s=timeout_s)
    return (yield from job(job_id, policy))


def run(new: NewJob, policy: Policy, *, key: str | None, timeout_s: float | None) -> Flow[Any]:
    """Submit a job and wait for it; its result. Raises JobFailed when it does not succeed."""
    submitted = yield from submit(new, policy, key=key)
    ended = yield from wait(submitted.id, policy, timeout_s=timeout_s)
    if ended.status != "success":
        raise JobFailed(ended)
    return ended.result


def _post(path: str, body: Any = None, *, key: str | None = None) -> Request:
    headers = {} if key is None else {"Idempotency-Key": key}
    return Request(method="POST", path=path, body=body, headers=headers)


def _key() -> str:
    """What names one call: it is kept when the call is sent again."""
    return uuid.uuid4().hex
