"""Calls that are made again since their answer was lost, and leases that hold nothing any more (DESIGN promise 2)."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from jobs.domain import leases
from jobs.domain.leases import Lease
from jobs.domain.states import Outcome, Status
from jobs.errors import LeaseLost
from jobs.models import Worker
from jobs.queries import moves

# Any constant will do: names of calls must not be those of anything else that is hashed this way.
_CALLS: Final = uuid.UUID("7d1c2bb2-5a55-4be9-8f0c-27f3a1f9b1f4")


def claim_key(worker: Worker, request_id: str | None) -> uuid.UUID | None:
    """What marks the jobs that this call claims, for a call that names itself; None: it cannot be repeated."""
    return None if request_id is None else _key(worker, "claim", request_id)


def finish_key(worker: Worker, request_id: str | None, held: Iterable[tuple[int, Lease]]) -> uuid.UUID:
    """The same for the jobs that come with a finish. Without a name the leases that it hands in are one."""
    named = request_id or " ".join(sorted(f"{job_id}:{lease}" for job_id, lease in held))
    return _key(worker, "finish", named)


def finished_before(
    worker: Worker, held: Sequence[tuple[int, Lease]]
) -> list[Status | LeaseLost]:  # fmt: skip
    """For each of these leases, none of which holds its job: the answer that its finish got, or why it is lost."""
    return [Status(row.answered) if row.answered else _lost(row, lease) for row, lease in _past(worker, held)]


def was_released(worker: Worker, job_id: int, lease: Lease) -> bool:
    """Whether this lease, which holds nothing, was given back by its worker. Raises LeaseLost if not."""
    [(row, _)] = _past(worker, [(job_id, lease)])
    if row.outcome != Outcome.RELEASED:
        raise _lost(row, lease)
    return True


def lost(worker: Worker, job_id: int, lease: Lease) -> LeaseLost:
    """Why this lease, which holds nothing, is lost."""
    [(row, _)] = _past(worker, [(job_id, lease)])
    return _lost(row, lease)


def _key(worker: Worker, call: str, name: str) -> uuid.UUID:
    return uuid.uuid5(_CALLS, f"{worker.pk} {call} {name}")


def _past(worker: Worker, held: Sequence[tuple[int, Lease]]) -> Iterable[tuple[moves.Row, Lease]]:
    return zip(moves.past_leases(worker, held), (lease for _, lease in held), strict=True)


def _lost(row: moves.Row, lease: Lease) -> LeaseLost:
    if not row.in_scope:  # whose job it is, and how it stands, is not for every worker to know
        return LeaseLost()
    numbers: Mapping[str, str] = leases.why_lost(
        lease.fence, fence=row.fence, status=Status(row.status), outcome=row.outcome
    )
    return LeaseLost(**numbers)
