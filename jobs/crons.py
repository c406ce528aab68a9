"""What of jobs is done by the clock. What must not wait for a cluster is the janitor's (docs/adr/0016). What counts
jobs fires within ten seconds when something happens to one (jobs.operations.hooks), and rarely otherwise."""

from jobs import operations
from jobs.operations.hooks import COUNT_JOBS, MEASURE_USAGE
from scheduling.operations import Missed, daily, declare, interval

declare("expire waiting jobs", interval(minutes=5), operations.expire)
declare(COUNT_JOBS, interval(minutes=15), operations.roll_up)
declare("forget old jobs", interval(minutes=15), operations.retain)
declare("forget idempotency keys", interval(minutes=15), operations.forget_idempotency_keys)
declare("forget requirements", interval(minutes=1), operations.forget_requirements)
declare(MEASURE_USAGE, interval(minutes=15), operations.measure_usage)
declare("recount usage", daily(hour=4), operations.recount_usage)
declare("daily health scores", daily(hour=6), operations.score_yesterday, missed=Missed.ONCE)
