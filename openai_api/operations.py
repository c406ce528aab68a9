"""What can be done with calls: make one, look how it ended, give it up."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import User

from jobs import operations as jobs
from jobs.protocol import jobs as protocol
from openai_api import domain
from openai_api.errors import UnknownCall, UnknownModel
from openai_api.kinds import CALL

if TYPE_CHECKING:
    from jobs.models import Job

_LISTED = 50  # models in the sentence of a refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a call ended: the HTTP status and the body of its answer; `file` is the name of the file that holds the body
    instead, and `fence` whose file it is."""

    status: int
    body: Any
    file: str | None = None
    fence: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A call that was made: its job, what it asked for, and how it ended; None while it has not."""

    job_id: int
    path: str
    is_stream: bool
    ended: Ended | None = None


def models(user: User) -> Mapping[str, datetime]:
    """The models that a live worker offers this person now, and since when."""
    return jobs.offered_models(user)


def submit(call: domain.Call, *, user: User, token_id: int | None = None, may_wait: bool = False) -> "Job":
    """Make a call: a job in its model's queue. Raises UnknownModel where nobody offers the model, and as
    `jobs.operations.submit`."""
    offered = jobs.offered_models(user)
    if call.model not in offered:
        names = ", ".join([*offered][:_LISTED]) or "none"
        raise UnknownModel(model=call.model, offered=names, param="model")
    return jobs.submit(
        CALL.name, call.payload, owner=user, queue=jobs.queue_of_model(call.model), token_id=token_id,
        may_wait=may_wait,
    )  # fmt: skip


def find(job_id: int, *, path: str, user: User) -> Made:
    """A call of this person at this path of the API. Raises UnknownCall."""
    job = next(iter(protocol.in_full([job_id])), None)
    if job is None or job.kind != CALL.name or job.owner != user.get_username():
        raise UnknownCall
    payload = job.payload if isinstance(job.payload, dict) else {}
    if payload.get("path") != path:
        raise UnknownCall
    is_stream = bool(payload["body"].get("stream"))
    return Made(job_id=job.id, path=path, is_stream=is_stream, ended=_ended(job))


def give_up(job_id: int) -> None:
    """Nobody waits for this call any more: cancel it. One that has ended stays as it is."""
    jobs.cancel(job_id, by=None)


def _ended(job: protocol.Job) -> Ended | None:
    if job.status in {"pending", "in_progress"}:
        return None
    if job.status != "success":
        status, body = domain.failure(job_id=job.id, status=job.status, message=job.error or "")
        return Ended(status=status, body=body)
    is_in_file = isinstance(job.result, dict) and job.result.get("answer_file") == domain.ANSWER_FILE
    return Ended(
        status=200, body=job.result, file=domain.ANSWER_FILE if is_in_file else None, fence=job.fence
    )
