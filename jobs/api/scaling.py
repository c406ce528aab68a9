"""What autoscalers call: how much there is to do, and how many workers that takes."""

from typing import Annotated, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare
from ninja.params import functions as parameters
from ninja.security import HttpBearer

from accounts import http as people
from core.api import Calls, Sample
from core.values import NO_NUL
from jobs import http
from jobs.domain.scaling import DRAIN_S
from jobs.errors import OperatorsOnly, UnknownQueue
from jobs.protocol import fleet as protocol
from jobs.queries import reads
from jobs.queries.gauges import queue_loads

router = Calls(tags=["Autoscalers"])


class MetricsToken(HttpBearer):
    """The token of the settings that opens `/metrics`: it shows the same numbers."""

    def authenticate(self, request: HttpRequest, token: str) -> str | None:  # noqa: ARG002 (ninja's signature)
        """A name for who has it; None for any other token, and where the settings have none."""
        expected: str = settings.METRICS_TOKEN
        return "metrics" if expected and constant_time_compare(token, expected) else None


WAYS_IN: Final = [MetricsToken(), *people.callers("read")]
QueueName = Annotated[
    str, parameters.Query("", max_length=100, pattern=NO_NUL, description="Of this queue alone, flat; else of all.")
]
Drain = Annotated[
    float,
    parameters.Query(
        DRAIN_S, ge=1, le=protocol.LONGEST_DRAIN_S, description="Within how many seconds what waits is to begin."
    ),
]
JobsPerWorker = Annotated[
    int,
    parameters.Query(1, ge=1, le=protocol.MOST_JOBS_PER_WORKER, description="How many jobs a worker runs at a time."),
]


@router.call("get", "/scale", auth=WAYS_IN, sample=Sample(query="queue=chat&drain_s=60"))
def scale(
    request: HttpRequest, queue: QueueName, drain_s: Drain, jobs_per_worker: JobsPerWorker
) -> protocol.QueueScale | protocol.FarmScale:
    """How many workers are wanted?

    How much there is to do, and how many workers keep up with what arrives and have what waits begun within `drain_s`
    seconds. For autoscalers: `deploy/keda` has an example.

    With `queue` the answer is flat; without it, `{"queues": [...]}`. The token is an operator's with the scope `read`,
    or that of `/metrics`; 403 `forbidden` for other people, 422 `unknown_queue`.

    `wanted_workers` is (`arrivals_per_s` x `mean_run_s` + `waiting` x the smaller of 1 and `mean_run_s` / `drain_s`),
    rounded up, at least 1 and at most `ceiling`, but never fewer than `running`; all of it divided by
    `jobs_per_worker`. 0 when nothing waits or runs. A paused queue wants what it runs. While no run has ended in an
    hour, each waiting job counts as one.
    """
    http.refuse_unknown_parameters(request, ["queue", "drain_s", "jobs_per_worker"])
    _refuse_members(request)
    answers = [
        protocol.scale(each, drain_s=drain_s, jobs_per_worker=jobs_per_worker) for each in queue_loads(queue=queue)
    ]
    if not queue:
        return protocol.FarmScale(queues=answers)
    if not answers:
        raise UnknownQueue(queue=queue)
    return answers[0]


def _refuse_members(request: HttpRequest) -> None:
    """The numbers are of everybody's jobs, so they are for who may see those."""
    caller = request.auth  # type: ignore[attr-defined]  # set by ninja
    if isinstance(caller, User) and not reads.is_operator(caller):
        raise OperatorsOnly
