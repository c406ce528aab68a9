"""The client that is awaited: the calls of `Client`, on an event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from types import TracebackType
from typing import Any, Self, Unpack

from jobfarm_client import calls, transport
from jobfarm_client.client import RETRY_FOR_S, TIMEOUT_S
from jobfarm_client.models import Canceled, Event, Job, JobFilters, JobOptions, NewJob, Reason, Skipped, Upload


class AsyncClient:
    """What `Client` does, awaited; `jobs`, `events` and `output` are iterated with `async for`. Of one event loop.

    async with AsyncClient("https://farm.example", token) as farm:
        job = await farm.submit("chat", {"prompt": "Why is the sky blue?"})
        async for text in farm.output(job.id):
            print(text, end="")
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        retry_for_s: float = RETRY_FOR_S,
    ) -> None:
        """As a `Client` is made."""
        options = transport.checked(url, token, timeout_s=timeout_s, retry_for_s=retry_for_s)
        self._policy = options.policy
        self._transport = transport.Awaited(options)

    async def submit(
        self, kind: str, payload: Any = None, *, idempotency_key: str | None = None, **options: Unpack[JobOptions]
    ) -> Job:
        """As `Client.submit`."""
        new = NewJob(kind=kind, payload=payload, **options)
        return await self._transport.result(calls.submit(new, self._policy, key=idempotency_key))

    async def submit_many(self, jobs: Iterable[NewJob], *, idempotency_key: str | None = None) -> list[Job | Skipped]:
        """As `Client.submit_many`."""
        return await self._transport.result(calls.submit_many(jobs, self._policy, key=idempotency_key))

    async def run(
        self,
        kind: str,
        payload: Any = None,
        *,
        wait_s: float | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[JobOptions],
    ) -> Any:
        """As `Client.run`."""
        new = NewJob(kind=kind, payload=payload, **options)
        return await self._transport.result(calls.run(new, self._policy, key=idempotency_key, timeout_s=wait_s))

    async def job(self, job_id: int) -> Job:
        """As `Client.job`."""
        return await self._transport.result(calls.job(job_id, self._policy))

    def jobs(self, **filters: Unpack[JobFilters]) -> AsyncIterator[Job]:
        """As `Client.jobs`."""
        return self._transport.items(calls.jobs(filters, self._policy))

    async def wait(self, job_id: int, *, timeout_s: float | None = None) -> Job:
        """As `Client.wait`."""
        return await self._transport.result(calls.wait(job_id, self._policy, timeout_s=timeout_s))

    def events(self, job_id: int, *, last_event_id: str = "", timeout_s: float | None = None) -> AsyncIterator[Event]:
        """As `Client.events`."""
        return self._transport.items(
            calls.events(job_id, self._policy, last_event_id=last_event_id, timeout_s=timeout_s)
        )

    def events_of(
        self, job_ids: Sequence[int], *, last_event_id: str = "", timeout_s: float | None = None
    ) -> AsyncIterator[Event]:
        """As `Client.events_of`."""
        return self._transport.items(
            calls.events_of(job_ids, self._policy, last_event_id=last_event_id, timeout_s=timeout_s)
        )

    def output(self, job_id: int, *, timeout_s: float | None = None) -> AsyncIterator[str]:
        """As `Client.output`."""
        return (event.text async for event in self.events(job_id, timeout_s=timeout_s) if event.name == "output")

    async def cancel(self, job_id: int) -> Canceled:
        """As `Client.cancel`."""
        return await self._transport.result(calls.cancel(job_id, self._policy))

    async def retry(self, job_id: int, *, idempotency_key: str | None = None) -> Job:
        """As `Client.retry`."""
        return await self._transport.result(calls.retry(job_id, self._policy, key=idempotency_key))

    async def run_now(self, job_id: int) -> Job:
        """As `Client.run_now`."""
        return await self._transport.result(calls.run_now(job_id, self._policy))

    async def why(self, job_id: int) -> list[Reason]:
        """As `Client.why`."""
        return await self._transport.result(calls.why(job_id, self._policy))

    async def upload(self, name: str, content: bytes) -> Upload:
        """As `Client.upload`."""
        return await self._transport.result(calls.upload(name, content, self._policy))

    async def download(self, job_id: int, name: str, *, fence: int | None = None) -> bytes:
        """As `Client.download`."""
        return await self._transport.result(calls.download(job_id, name, self._policy, fence=fence))

    async def close(self) -> None:
        """As `Client.close`."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
