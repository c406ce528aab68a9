"""The history of a run of chaos: what everybody wrote down of its calls, and what the database says at the end."""

from jobs.models import Job, Step
from postgres import connections
from tests.chaos import reads
from tests.chaos.farm import Farm
from tests.chaos.load import BUCKET, LIMIT
from tests.histories import checking, recording
from tests.histories.history import Bound, Call, History

FILE = "history.jsonl.gz"


def judged(farm: Farm) -> list[str]:
    """Write the history down beside the logs; what contradicts itself in it."""
    history = gathered(farm)
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
