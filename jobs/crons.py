"""What of jobs is done by the clock. What must not wait for a cluster is the janitor's (docs/adr/0016). What counts
jobs fires within ten seconds when something happens to one (jobs.operations.hooks), and rarely otherwise."""

from django.db.models import Q

from jobs import operations
from jobs.domain.bulks import OVER, Phase
from jobs.domain.flows import KEPT_DAYS
from jobs.domain.rollups import RETENTION
from jobs.models import Bulk, HealthScore, Rollup, Served, Signal, ViewToken
from jobs.operations import janitor
from jobs.operations.hooks import COUNT_JOBS, MEASURE_USAGE
from jobs.queries import keys, lanes, requirements, submits
from scheduling.operations import Missed, daily, declare, interval, keep, prune

declare("expire waiting jobs", interval(minutes=5), operations.expire)
declare(COUNT_JOBS, interval(minutes=15), operations.roll_up)
declare("mend bulk actions", interval(minutes=5), operations.bulk.mend)
declare("files that no job knows", daily(hour=3), operations.delete_lost_files, missed=Missed.ONCE)
declare("forget requirements", interval(minutes=1), operations.forget_requirements)
declare(MEASURE_USAGE, interval(minutes=15), operations.measure_usage)
declare("recount usage", daily(hour=4), operations.recount_usage)
declare("daily health scores", daily(hour=6), operations.score_yesterday, missed=Missed.ONCE)
prune("jobs", janitor.forget, size=500)
prune("input files that no job uses", janitor.forget_uploads, size=500)
prune("lanes in which nothing waits", lanes.delete, size=500)
prune("runs of fair queues that no claim has added up", lanes.fold_charges, size=1)
prune("concurrency keys that no job has", keys.delete_keys, size=500)
prune("sets of conditions on labels", requirements.delete_retired)
prune("addresses of jobs that have ended", submits.forget_callbacks, size=5000)
prune("idempotency keys", submits.forget_requests, size=5000)
keep("health scores", HealthScore.objects.all(), by="day", days=400)  # a year, to compare with, and a month
for _step_s, _kept in RETENTION.items():
    _rows = Rollup.objects.filter(step_s=_step_s)
    keep(f"charts in steps of {_step_s} s", _rows, by="at", days=_kept.days)
keep("signals that no job waited for", Signal.objects.filter(taken_at=None), by="created_at", days=KEPT_DAYS)
keep("signals by a key", Signal.objects.filter(job=None), by="created_at", days=KEPT_DAYS)  # jobs have copies
keep("view tokens", ViewToken.objects.all(), by="expires_at")
keep("what shares of fair queues were served", Served.objects.all(), by="at", days=2)
_TAKEN_BACK = Q(undone_by=None) | Q(undone_by__phase__in=sorted(OVER))  # what undoes one goes with it: not midway
keep("bulk actions", Bulk.objects.filter(_TAKEN_BACK, phase__in=sorted(OVER)), by="ended_at", days=8)
keep("bulk actions unconfirmed", Bulk.objects.filter(phase__in=[Phase.COUNTING, Phase.READY]), by="created_at", days=1)
