"""The client that blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from jobfarm_client import calls, transport
from jobfarm_client.models import Canceled, Event, Job, JobFilters, JobOptions, NewJob, Reason, Skipped, Upload

TIMEOUT_S = 30.0
RETRY_FOR_S = 60.0


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

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        retry_for_s: float = RETRY_FOR_S,
    ) -> None:
        """A client of the farm at `url` for whom the token belongs to; None: JOBFARM_URL, JOBFARM_TOKEN.

        `timeout_s`: for each step of a request. `retry_for_s`: how long a call is repeated; 0: never.
        Raises BadOption when one of them makes no sense.
        """
        options = transport.checked(url, token, timeout_s=timeout_s, retry_for_s=retry_for_s)
        self._policy = options.policy
        self._transport = transport.Blocking(options)

    def submit(
        self, kind: str, payload: Any = None, *, idempotency_key: str | None = None, **options: Unpack[JobOptions]
    ) -> Job:
        """Submit a job. `idempotency_key`: a name of your own for this submit; a repeat with it makes no second job.

        Raises TypeError or ValueError for a payload that is not JSON, NotUnique while its `unique_key` has a twin.
        """
        new = NewJob(kind=kind, payload=payload, **options)
        return self._transport.result(calls.submit(new, self._policy, key=idempotency_key))

    def submit_many(self, jobs: Iterable[NewJob], *, idempotency_key: str | None = None) -> list[Job | Skipped]:
        """Submit many jobs, a thousand a call; an entry for each, in order: the job, or why there is none.

        Any other fault refuses its thousand whole; those before it are submitted, and a repeat with the same
        `idempotency_key` and jobs answers with them.
        """
        return self._transport.result(calls.submit_many(jobs, self._policy, key=idempotency_key))

    def run(
        self,
        kind: str,
        payload: Any = None,
        *,
        wait_s: float | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Any:
        """Submit a job and wait for its result, `wait_s` seconds at most. Raises JobFailed, or WaitTimeout."""
        new = NewJob(kind=kind, payload=payload, **options)
        return self._transport.result(calls.run(new, self._policy, key=idempotency_key, timeout_s=wait_s))

    def job(self, job_id: int) -> Job:
        """The job as it stands, with its attempts. Raises NotFound."""
        return self._transport.result(calls.job(job_id, self._policy))

    def jobs(self, **filters: Unpack[JobFilters]) -> Iterator[Job]:
        """The jobs that fit, the newest first; pages are read as they are needed, without what came since."""
        return self._transport.items(calls.jobs(filters, self._policy))

    def wait(self, job_id: int, *, timeout_s: float | None = None) -> Job:
        """Wait until a job has ended, however it does; the job. Raises WaitTimeout, and then the job goes on.

        It listens to the job's events, again where the stream breaks off, and asks now and then where none comes
        through. It may take a quarter longer than `timeout_s` where something comes shortly before.
        """
        return self._transport.result(calls.wait(job_id, self._policy, timeout_s=timeout_s))

    def events(self, job_id: int, *, last_event_id: str = "", timeout_s: float | None = None) -> Iterator[Event]:
        """What happens to a job, until it has ended: nothing twice, nothing lost, over any number of connections.

        `last_event_id`: the `id` of an event; what comes is behind it. Raises WaitTimeout.
        """
        return self._transport.items(
            calls.events(job_id, self._policy, last_event_id=last_event_id, timeout_s=timeout_s)
        )

    def events_of(
        self, job_ids: Sequence[int], *, last_event_id: str = "", timeout_s: float | None = None
    ) -> Iterator[Event]:
        """What happens to up to 50 jobs, by one stream, until all have ended; `data["job"]` says to which."""
        return self._transport.items(
            calls.events_of(job_ids, self._policy, last_event_id=last_event_id, timeout_s=timeout_s)
        )

    def output(self, job_id: int, *, timeout_s: float | None = None) -> Iterator[str]:
        """The text that a job writes, piece by piece as it is written, until it has ended. Raises WaitTimeout."""
        return (event.text for event in self.events(job_id, timeout_s=timeout_s) if event.name == "output")

    def cancel(self, job_id: int) -> Canceled:
        """Cancel a job; what that came to."""
        return self._transport.result(calls.cancel(job_id, self._policy))

    def retry(self, job_id: int, *, idempotency_key: str | None = None) -> Job:
        """Submit an ended job once more; the new job. Raises NotEnded."""
        return self._transport.result(calls.retry(job_id, self._policy, key=idempotency_key))

    def run_now(self, job_id: int) -> Job:
        """Let a job that is due later run now. Raises NotWaiting."""
        return self._transport.result(calls.run_now(job_id, self._policy))

    def why(self, job_id: int) -> list[Reason]:
        """Why a job does not run, what matters most first."""
        return self._transport.result(calls.why(job_id, self._policy))

    def upload(self, name: str, content: bytes) -> Upload:
        """Store an input file; its `id` goes into the `files` of a submit. Raises QuotaReached."""
        return self._transport.result(calls.upload(name, content, self._policy))

    def download(self, job_id: int, name: str, *, fence: int | None = None) -> bytes:
        """A result file's bytes; `fence`: of that attempt. Raises NotFound."""
        return self._transport.result(calls.download(job_id, name, self._policy, fence=fence))

    def close(self) -> None:
        """Close the connections; the client is of no use then."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
