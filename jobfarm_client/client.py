"""The two clients: one blocks, one is awaited."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from jobfarm_client.calls import Calls
from jobfarm_client.transport import RETRY_FOR_S, TIMEOUT_S, Awaited, Blocking, checked, items, result

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

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        retry_for_s: float = RETRY_FOR_S,
    ) -> None:
        """A client of the farm at `url` for whom the token belongs to; None: JOBFARM_URL, JOBFARM_TOKEN.

        `timeout_s`: for each step of a request, and for all of it but its bytes. `retry_for_s`: how long a call is
        repeated; 0: never. Raises BadOption when one of them makes no sense.
        """
        self.calls = Calls(Blocking(checked(url, token, timeout_s=timeout_s, retry_for_s=retry_for_s)))

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

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        retry_for_s: float = RETRY_FOR_S,
    ) -> None:
        super().__init__(Awaited(checked(url, token, timeout_s=timeout_s, retry_for_s=retry_for_s)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
