"""What of jobs is done by the clock. What must not wait for a cluster is the janitor's (docs/adr/0016)."""

from jobs import operations
from scheduling.operations import Missed, daily, declare, interval

declare("expire waiting jobs", interval(minutes=1), operations.expire)
declare("count jobs for the charts", interval(seconds=10), operations.roll_up)
declare("forget old jobs", interval(minutes=5), operations.retain)
declare("forget idempotency keys", interval(minutes=5), operations.forget_idempotency_keys)
declare("measure usage", interval(seconds=10), operations.measure_usage)
declare("recount usage", daily(hour=4), operations.recount_usage)
declare("daily health scores", daily(hour=6), operations.score_yesterday, missed=Missed.ONCE)
