"""What autoscalers call: how much there is to do, and how many workers that takes."""

from typing import Annotated, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare
from ninja import Router
from ninja.params import functions as parameters
from ninja.security import HttpBearer

from accounts import http as people
from core.api import documented
from jobs import http
from jobs.api import documents
from jobs.domain.scaling import DRAIN_S
from jobs.errors import OperatorsOnly, UnknownQueue
from jobs.protocol import scaling
from jobs.queries import reads
from jobs.queries.scaling import queue_loads

router = Router(tags=["Autoscalers"])


class MetricsToken(HttpBearer):
    """The token of the settings that opens `/metrics`: it shows the same numbers."""

    def authenticate(self, request: HttpRequest, token: str) -> str | None:  # noqa: ARG002 (ninja's signature)
        """A name for who has it; None for any other token, and where the settings have none."""
        expected: str = settings.METRICS_TOKEN
        return "metrics" if expected and constant_time_compare(token, expected) else None


WAYS_IN: Final = [MetricsToken(), *people.callers("read")]
QueueName = Annotated[str, parameters.Query("", max_length=100, description="Of this queue alone, flat; else of all.")]
Drain = Annotated[
    float,
    parameters.Query(
        DRAIN_S, ge=1, le=scaling.LONGEST_DRAIN_S, description="Within how many seconds what waits is to begin."
    ),
]
JobsPerWorker = Annotated[
    int,
    parameters.Query(1, ge=1, le=scaling.MOST_JOBS_PER_WORKER, description="How many jobs a worker runs at a time."),
]


@router.get(
    "/scale",
    auth=WAYS_IN,
    **documented("How many workers are wanted?", documents.SCALE, scaling.QueueScale | scaling.FarmScale),
)
def scale(
    request: HttpRequest, queue: QueueName, drain_s: Drain, jobs_per_worker: JobsPerWorker
) -> scaling.QueueScale | scaling.FarmScale:
    http.refuse_unknown_parameters(request, ["queue", "drain_s", "jobs_per_worker"])
    _refuse_members(request)
    answers = [
        scaling.scale(each, drain_s=drain_s, jobs_per_worker=jobs_per_worker) for each in queue_loads(queue=queue)
    ]
    if not queue:
        return scaling.FarmScale(queues=answers)
    if not answers:
        raise UnknownQueue(queue=queue)
    return answers[0]


def _refuse_members(request: HttpRequest) -> None:
    """The numbers are of everybody's jobs, so they are for who may see those."""
    caller = request.auth  # type: ignore[attr-defined]  # set by ninja
    if isinstance(caller, User) and not reads.is_operator(caller):
        raise OperatorsOnly
