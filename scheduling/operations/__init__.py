"""What others use: `from scheduling import operations as scheduling`, then `scheduling.run_after(...)`."""

from core.backoff import Backoff
from core.refusal import CancelVerdict
from scheduling.domain.calls import Json, Kind, Retry, Status
from scheduling.domain.schedules import Missed, Overlap, cron, daily, hourly, interval, monthly, weekly
from scheduling.errors import (
    OutsideConnection,
    OutsideProcess,
    OutsideThread,
    SchedulingError,
    SecondConnection,
    WriteOutsideMutation,
)
from scheduling.operations.clusters import Health, health, living, run_due, sweep
from scheduling.operations.crons import (
    checked_name,
    declare,
    edit,
    fire_due,
    follow_code,
    hasten,
    is_editable,
    is_internal,
    make,
    pause,
    remove,
    resume,
    run_now,
    sync_crons,
    upcoming,
)
from scheduling.operations.endings import Failures, in_batches, is_away, reason_of
from scheduling.operations.functions import Cancellation, action, cancel, mutation, run_after, run_again, run_at
from scheduling.operations.retention import keep, prune, retain
