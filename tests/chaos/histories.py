"""The history of a run of chaos: what everybody wrote down of its calls, and what the database says at the end."""

from jobs.models import Job, Step
from outbox.models import Event
from postgres import connections
from tests.chaos import reads
from tests.chaos.farm import Farm
from tests.chaos.load import BUCKET, LIMIT
from tests.histories import checking, recording
from tests.histories.history import Bound, Call, History
from tests.outbox.receivers import Receiver
from webhooks.models import DeliveryAttempt

FILE = "history.jsonl.gz"


def judged(farm: Farm, there: Receiver | None) -> list[str]:
    """Write the history down beside the logs; what contradicts itself in it."""
    history = gathered(farm)
    history.calls += [*_processed(), *(_messages(there) if there else [])]
    history.write(farm.folder / FILE)
    return checking.faults(history)


@connections.released()
def gathered(farm: Farm) -> History:
    """All calls, how jobs stand, and what the mutations that committed had read."""
    history = History(calls=list(recording.calls(farm.calls.glob("*.calls"))), may_forget=True)
    for step in Step.objects.exclude(parent_id=None):
        more = {"position": step.position, "child": step.job_id}
        history.calls.append(Call(call="step", process="the last look", job=step.parent_id, more=more))
    history.states = {job.pk: job.status for job in Job.objects.all()}
    history.bounds = [Bound(name=LIMIT, most=BUCKET.most, rate=BUCKET.rate)]
    committed, history.lists = reads.read()
    history.calls += committed
    return history


@connections.released()
def _processed() -> list[Call]:
    """What the inbox processed."""
    rows = DeliveryAttempt.objects.filter(outcome="processed").values_list("delivery__delivery_id", "ended_at")
    return [_noted("process", at.timestamp(), delivery=name) for name, at in rows.order_by("ended_at")]


@connections.released()
def _messages(there: Receiver) -> list[Call]:
    """The events that the outbox has, and how they arrived."""
    events = Event.objects.order_by("id").values_list("uid", "subject", "created_at")
    return [
        *(_noted("emit", at.timestamp(), event=f"msg_{uid.hex}", subject=subject) for uid, subject, at in events),
        *(_noted("arrive", one.at, event=one.headers["webhook-id"]) for one in list(there.requests)),
    ]


def _noted(call: str, at: float, **more: str) -> Call:
    return Call(call=call, process="the last look", began=at, ended=at, more=more)
