"""The two clients, of which one blocks and one is awaited, and the calls of both: what they promise, which requests
they make, and what answers mean."""

import itertools
import json
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack
from urllib.parse import quote

from jobfarm_client import models
from jobfarm_client.errors import JobFailed
from jobfarm_client.following import Following, FollowingJob, FollowingJobs
from jobfarm_client.transport import Awaited, Blocking, Request, Times, Transport, checked, items, result
from jobfarm_client.wire import BULKS, EVENTS, FLOWS, JOBS, UPLOADS, of_job

MOST_IN_A_BULK = 1000  # what a farm takes in one call
PAGE = 200  # what it lists in one
WHOLE_RESULT = "whole-result.json"  # the file of a result of more than a megabyte


class Calls:
    """All calls, by one transport; those of `Client` are the same ones, carried out where they stand."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def submit(
        self,
        kind: str,
        payload: Any = None,
        *,
        idempotency_key: str | None = None,
        **options: Unpack[models.JobOptions],
    ) -> models.Job:
        """Submit a job. `idempotency_key`: a name of your own for this submit; a repeat with it makes no second job.

        Raises TypeError or ValueError for a payload that is not JSON, NotUnique while its `unique_key` has a twin.
        """
        new = models.as_json({"kind": kind, "payload": payload, **options})
        return await self._job(_post(JOBS, new, key=idempotency_key or _key()))

    async def submit_many(
        self, jobs: Iterable[models.NewJob], *, idempotency_key: str | None = None
    ) -> list[models.Job | models.Skipped]:
        """Submit many jobs, a thousand a call; an entry for each, in order: the job, or why there is none.

        Any other fault refuses its thousand whole; those before it are submitted, and a repeat with the same
        `idempotency_key` and jobs answers with them.
        """
        entries: list[models.Job | models.Skipped] = []
        key, rest = idempotency_key or _key(), iter(jobs)
        for number in itertools.count():
            if not (part := [models.as_json(new) for new in itertools.islice(rest, MOST_IN_A_BULK)]):
                break
            answer = await self._transport.answer(_post(f"{JOBS}/bulk", {"jobs": part}, key=f"{key}.{number}"), "jobs")
            entries += [
                (models.Skipped if "error" in entry and "id" not in entry else models.Job).from_json(entry)
                for entry in answer["jobs"]
            ]
        return entries

    async def run(
        self,
        kind: str,
        payload: Any = None,
        *,
        wait_s: float | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[models.JobOptions],
    ) -> Any:
        """Submit a job and wait for its result, `wait_s` seconds at most. Raises JobFailed, or WaitTimeout."""
        submitted = await self.submit(kind, payload, idempotency_key=idempotency_key, **options)
        ended = await self.wait(submitted.id, timeout_s=wait_s)
        if ended.status != "success":
            raise JobFailed(ended)
        return ended.result

    async def job(self, job_id: int) -> models.Job:
        """The job as it stands, with its attempts. Raises NotFound."""
        return await self._job(Request(path=of_job(job_id)))

    async def jobs(self, **filters: Unpack[models.JobFilters]) -> AsyncGenerator[models.Job, None]:
        """The jobs that fit, the newest first; pages are read as they are needed, without what came since."""
        params: dict[str, Any] = {"limit": PAGE, **{name: one for name, one in filters.items() if one is not None}}
        while True:
            page = await self._transport.answer(Request(path=JOBS, params=params), "jobs")
            for entry in page["jobs"]:
                yield models.Job.from_json(entry)
            if page["next"] is None:
                return
            params["cursor"] = page["next"]

    async def wait(self, job_id: int, *, timeout_s: float | None = None) -> models.Job:
        """Wait until a job has ended, however it does; the job. Raises WaitTimeout, and then the job goes on.

        It listens to the job's events, again where the stream breaks off, and asks now and then where none comes
        through. It may take a quarter longer than `timeout_s` where something comes shortly before.
        """
        async for _ in self.events(job_id, timeout_s=timeout_s):
            pass
        return await self.job(job_id)

    def events(
        self, job_id: int, *, last_event_id: str = "", timeout_s: float | None = None
    ) -> AsyncGenerator[models.Event, None]:
        """What happens to a job, until it has ended: nothing twice, nothing lost, over any number of connections.

        `last_event_id`: the `id` of an event; what comes is behind it. Raises WaitTimeout.
        """
        return FollowingJob(job_id, self._transport, last_event_id=last_event_id, timeout_s=timeout_s).events()

    def events_of(
        self, job_ids: Sequence[int], *, last_event_id: str = "", timeout_s: float | None = None
    ) -> AsyncGenerator[models.Event, None]:
        """What happens to up to 50 jobs, by one stream, until all have ended; `data["job"]` says to which."""
        return FollowingJobs(job_ids, self._transport, last_event_id=last_event_id, timeout_s=timeout_s).events()

    def events_that_match(
        self, *, last_event_id: str = "", timeout_s: float | None = None, **filters: Unpack[models.EventFilters]
    ) -> AsyncGenerator[models.Event, None]:
        """What happens to all jobs that fit, new ones included, by one stream: without end, unless WaitTimeout.

        First comes a `job` event for each of the newest 100, then one whenever a job is submitted or changes. Over lost
        connections nothing is lost and some come again; after an hour without one, `reset` says to list jobs anew.
        """
        stream = Request(path=EVENTS, params=filters)
        return Following(stream, self._transport, last_event_id=last_event_id, timeout_s=timeout_s).events()

    def output(self, job_id: int, *, timeout_s: float | None = None) -> AsyncGenerator[str, None]:
        """The text that a job writes, piece by piece as it is written, until it has ended. Raises WaitTimeout."""
        return (event.text async for event in self.events(job_id, timeout_s=timeout_s) if event.name == "output")

    async def cancel(self, job_id: int) -> models.Canceled:
        """Cancel a job; what that came to."""
        answer = await self._transport.answer(_post(of_job(job_id, "/cancel")), "verdict")
        return models.Canceled(verdict=answer["verdict"], status=answer["status"])

    async def signal(self, job_id: int, name: str, data: Any = None, *, key: str | None = None) -> bool:
        """Send a job a signal, which it waits for or will; whether it is new: the same `key` again is the same signal.
        Raises NotFound."""
        body = {"name": name, "data": data, "id": key or _key()}
        return bool((await self._transport.answer(_post(of_job(job_id, "/signals"), body), "is_new"))["is_new"])

    async def retry(self, job_id: int, *, idempotency_key: str | None = None) -> models.Job:
        """Submit an ended job once more; the new job. Raises NotEnded."""
        return await self._job(_post(of_job(job_id, "/retry"), key=idempotency_key or _key()))

    async def flow(self, flow_id: int) -> models.Flow:
        """A flow as it stands. Raises NotFound."""
        return models.Flow.from_json(await self._transport.answer(Request(path=f"{FLOWS}/{flow_id}")))

    async def submit_flow(self, template: str, /, *, idempotency_key: str | None = None, **values: Any) -> models.Flow:
        """Start a flow from the template of this name, with values for its placeholders; as it stands then.

        Raises Refused for values that do not fit, and NotUnique while a `unique_key` of one of its jobs is taken.
        """
        body = {"template": template, "values": values}
        return models.Flow.from_json(await self._transport.answer(_post(FLOWS, body, key=idempotency_key or _key())))

    async def cancel_flow(self, flow_id: int) -> int:
        """Cancel all jobs of a flow that have not ended; how many that were."""
        return int((await self._transport.answer(_post(f"{FLOWS}/{flow_id}/cancel"), "canceled"))["canceled"])

    async def retry_flow(self, flow_id: int, *, from_job: int | None = None) -> list[int]:
        """Try again what failed in a flow, and what was canceled for its sake; the new jobs that try the former.

        `from_job`: that ended job instead, and all that came after it, however they ended. Raises NotEnded while one of
        these waits or runs.
        """
        body = None if from_job is None else {"from": from_job}
        request = _post(f"{FLOWS}/{flow_id}/retry", body, key=_key())
        return [*(await self._transport.answer(request, "jobs"))["jobs"]]

    async def run_now(self, job_id: int) -> models.Job:
        """Let a job that is due later run now. Raises NotWaiting."""
        return await self._job(_post(of_job(job_id, "/run_now"), key=_key()))

    async def why(self, job_id: int) -> list[models.Reason]:
        """Why a job does not run, what matters most first."""
        answer = await self._transport.answer(Request(path=of_job(job_id, "/why")), "reasons")
        return [models.Reason(code=one["code"], sentence=one["sentence"], details=one) for one in answer["reasons"]]

    async def bulk(
        self,
        action: str,
        *,
        value: str | int | None = None,
        begin_up_to: int | None = None,
        idempotency_key: str | None = None,
        **filters: Unpack[models.BulkFilters],
    ) -> models.BulkAction:
        """Have many jobs counted, to `cancel`, `retry`, `run_now`, `change_queue` or `change_priority` (to `value`).

        It begins by itself where no more than `begin_up_to` match; else it waits for `begin_bulk`.
        """
        named = {name: models.in_json(one) for name, one in filters.items()}
        body = {"action": action, "filters": named, "value": value, "begin_up_to": begin_up_to}
        return await self._bulk(_post(BULKS, body, key=idempotency_key or _key()))

    async def bulk_action(self, bulk_id: int) -> models.BulkAction:
        """How far a bulk action is."""
        return await self._bulk(Request(path=f"{BULKS}/{bulk_id}"))

    async def begin_bulk(self, bulk_id: int) -> models.BulkAction:
        """Begin a bulk action that was counted; again changes nothing."""
        return await self._bulk(_post(f"{BULKS}/{bulk_id}/begin"))

    async def stop_bulk(self, bulk_id: int) -> models.BulkAction:
        """Do no more of it; what is done is done."""
        return await self._bulk(_post(f"{BULKS}/{bulk_id}/stop"))

    async def undo_bulk(self, bulk_id: int) -> models.BulkAction:
        """Take back a bulk action that is over, where that is still true to do; the one that does so."""
        return await self._bulk(_post(f"{BULKS}/{bulk_id}/undo"))

    async def upload(self, name: str, content: bytes) -> models.Upload:
        """Store an input file; its `id` goes into the `files` of a submit. Raises QuotaReached.

        One that arrived twice is deleted after a day, since no job uses it.
        """
        headers = {"Content-Type": "application/octet-stream"}
        request = Request(method="POST", path=UPLOADS, params={"name": name}, content=content, headers=headers)
        return models.Upload.from_json(await self._transport.answer(request))

    async def download(self, job_id: int, name: str, *, fence: int | None = None) -> bytes:
        """A result file's bytes; `fence`: of that attempt. Raises NotFound."""
        params = {} if fence is None else {"fence": fence}
        path = of_job(job_id, f"/files/{quote(name, safe='')}")
        return await self._transport.content(Request(path=path, params=params))

    async def close(self) -> None:
        """Close the connections; the client is of no use then."""
        await self._transport.close()

    async def _bulk(self, request: Request) -> models.BulkAction:
        return models.BulkAction.from_json(await self._transport.answer(request))

    async def _job(self, request: Request) -> models.Job:
        """The job that is the answer, with its whole result, be that a file."""
        job = models.Job.from_json(await self._transport.answer(request))
        if job.status != "success" or not any(file.name == WHOLE_RESULT for file in job.files):
            return job
        whole = await self.download(job.id, WHOLE_RESULT, fence=job.fence)
        return replace(job, result=json.loads(whole))


def _post(path: str, body: Any = None, *, key: str | None = None) -> Request:
    headers = {} if key is None else {"Idempotency-Key": key}
    return Request(method="POST", path=path, body=body, headers=headers)


def _key() -> str:
    """What names one call: it is kept when the call is sent again."""
    return uuid.uuid4().hex


P = ParamSpec("P")
T = TypeVar("T")


def _at_once(call: Callable[Concatenate[Calls, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate["Client", P], T]:
    """The call of `Calls`, which returns what that is awaited for."""

    @wraps(call)
    def carried_out(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return result(call(client.calls, *args, **kwargs))

    return carried_out


def _one_by_one(
    call: Callable[Concatenate[Calls, P], AsyncGenerator[T, None]],
) -> Callable[Concatenate["Client", P], Iterator[T]]:

    @wraps(call)
    def carried_out(client: "Client", /, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        return items(call(client.calls, *args, **kwargs))

    return carried_out


class Client:
    """Submits jobs to one farm, follows and cancels them. May be used by several threads.

    with Client("https://farm.example", token) as farm:
        job = farm.submit("chat", {"prompt": "Why is the sky blue?"})
        for text in farm.output(job.id):
            print(text, end="")
        print(farm.wait(job.id).result)

    Each call is repeated, with backoff and jitter or as Retry-After says, while the farm is away, busy or limits its
    rate; a submit and a retry carry an Idempotency-Key of their own, so that they are done once. All calls raise
    Unauthorized, Unreachable, WrongServer, or Refused (of the code's own class, with `code` and `details`).
    """

    def __init__(self, url: str | None = None, token: str | None = None, **times: Unpack[Times]) -> None:
        """A client of the farm at `url` for whom the token belongs to; None: JOBFARM_URL, JOBFARM_TOKEN.

        `timeout_s` (30): for each step of a request, and for all of it but its bytes. `retry_for_s` (60): how long a
        call is repeated; 0: never. Raises BadOption when one of them makes no sense.
        """
        self.calls = Calls(Blocking(checked(url, token, **times)))

    submit = _at_once(Calls.submit)
    submit_many = _at_once(Calls.submit_many)
    run = _at_once(Calls.run)
    job = _at_once(Calls.job)
    jobs = _one_by_one(Calls.jobs)
    wait = _at_once(Calls.wait)
    events = _one_by_one(Calls.events)
    events_of = _one_by_one(Calls.events_of)
    events_that_match = _one_by_one(Calls.events_that_match)
    output = _one_by_one(Calls.output)
    cancel = _at_once(Calls.cancel)
    signal = _at_once(Calls.signal)
    retry = _at_once(Calls.retry)
    flow = _at_once(Calls.flow)
    submit_flow = _at_once(Calls.submit_flow)
    cancel_flow = _at_once(Calls.cancel_flow)
    retry_flow = _at_once(Calls.retry_flow)
    run_now = _at_once(Calls.run_now)
    why = _at_once(Calls.why)
    bulk = _at_once(Calls.bulk)
    bulk_action = _at_once(Calls.bulk_action)
    begin_bulk = _at_once(Calls.begin_bulk)
    stop_bulk = _at_once(Calls.stop_bulk)
    undo_bulk = _at_once(Calls.undo_bulk)
    upload = _at_once(Calls.upload)
    download = _at_once(Calls.download)
    close = _at_once(Calls.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncClient(Calls):
    """What `Client` does, awaited; `jobs`, `events` and `output` are iterated with `async for`. Of one event loop.

    async with AsyncClient("https://farm.example", token) as farm:
        job = await farm.submit("chat", {"prompt": "Why is the sky blue?"})
        async for text in farm.output(job.id):
            print(text, end="")
    """

    def __init__(self, url: str | None = None, token: str | None = None, **times: Unpack[Times]) -> None:
        super().__init__(Awaited(checked(url, token, **times)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
