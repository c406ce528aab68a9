"""The end of a run of chaos: everything comes to rest, then it is compared with what was acknowledged and shown."""

from tests.chaos import events, histories, truth
from tests.chaos.crew import until
from tests.chaos.farm import Farm
from tests.chaos.load import Load
from tests.chaos.score import Score
from tests.chaos.watcher import Watcher
from tests.outbox.receivers import Receiver

AT_REST_WITHIN_S = 150.0
SHOWN_WITHIN_S = 30.0


def judged(
    farm: Farm, load: Load, page: Watcher, score: Score, findings: truth.Findings, there: Receiver | None = None
) -> truth.Findings:
    """End the load and the page; return what is wrong, with the `findings` of the way there.

    `there` is the receiver of the farm's events, if it has one."""
    load.stop()
    if not until(truth.is_at_rest, within_s=AT_REST_WITHIN_S):
        score.say(f"has not come to rest: {truth.waiting()}")
    result = truth.judge(farm, load.book, began_at=load.began_at)
    result.contradictions = histories.judged(farm, there)
    if there is not None:
        events.judge(there, result)
    until(lambda: not page.lies(truth.statuses()), within_s=SHOWN_WITHIN_S)
    page.stop()
    result.untrue, result.lost = findings.untrue + page.lies(truth.statuses()), findings.lost + result.lost
    score.sockets = page.lost
    return result
