"""What would change that a job does not run. Who may do it is for the call, or the page, that does it to say."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """One way out: a code for machines, a label for people, and the API's `POST /jobs/{id}/<call>`."""

    code: str
    label: str
    call: str | None = None


CANCEL: Final = Remedy(code="cancel", label="Cancel the job", call="cancel")
RUN_NOW: Final = Remedy(code="run_now", label="Run it now", call="run_now")
RETRY: Final = Remedy(code="retry", label="Try it again, as a new job", call="retry")
RAISE_LIMIT: Final = Remedy(code="raise_limit", label="Raise the limit")


def wait(label: str) -> Remedy:
    """Time does it."""
    return Remedy(code="wait", label=label)


def resume_queue(queue: str) -> Remedy:
    """For a queue that is paused."""
    return Remedy(code="resume_queue", label=f"Resume the queue {queue}")


def raise_ceiling(queue: str) -> Remedy:
    """For a queue that is full."""
    return Remedy(code="raise_ceiling", label=f"Raise the ceiling of the queue {queue}")


def add_worker(queue: str) -> Remedy:
    """For a job that nobody takes, or not soon."""
    return Remedy(code="add_worker", label=f"Add a worker for the queue {queue}")


def ask_for_queue(queue: str) -> Remedy:
    """For workers that could take it and ask for other queues."""
    return Remedy(code="ask_for_queue", label=f"Have one of these workers ask for the queue {queue}, too")


# Of each reason (jobs.domain.waiting) what changes it, the surest first.
OF: Final[Mapping[str, Callable[[str], tuple[Remedy, ...]]]] = {
    "expired": lambda _: (wait("Wait some seconds; once it has ended it can be tried again"),),
    "waiting_for_limit": lambda _: (wait("Wait until its tokens have come in"), RAISE_LIMIT, CANCEL),
    "not_due": lambda _: (RUN_NOW, CANCEL),
    "queue_paused": lambda queue: (resume_queue(queue),),
    "queue_full": lambda queue: (raise_ceiling(queue),),
    "no_worker": lambda queue: (add_worker(queue),),
    "out_of_scope": lambda queue: (add_worker(queue),),
    "not_asked": lambda queue: (ask_for_queue(queue), add_worker(queue)),
    "stealers_busy": lambda queue: (wait("Wait until one of them is idle"), add_worker(queue)),
    "all_failed_it": lambda queue: (wait("Wait until one of them may try again"), add_worker(queue)),
    "ahead": lambda queue: (wait("Wait for its turn"), add_worker(queue)),
    "next": lambda queue: (wait("Wait for a worker that asks"), add_worker(queue)),
}
