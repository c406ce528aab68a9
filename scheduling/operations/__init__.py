"""What others use: `from scheduling import operations as scheduling`, then `scheduling.run_after(...)`."""

from core.backoff import Backoff
from core.verdicts import CancelVerdict
from scheduling.domain.arguments import Json
from scheduling.domain.retries import Retry
from scheduling.domain.schedules import Missed, Overlap, cron, daily, hourly, interval, monthly, weekly
from scheduling.domain.states import Kind, Status
from scheduling.errors import (
    OutsideConnection,
    OutsideProcess,
    OutsideThread,
    SchedulingError,
    SecondConnection,
    WriteOutsideMutation,
)
from scheduling.operations.clusters import retain, run_due, sweep
from scheduling.operations.crons import (
    declare,
    fire_due,
    hasten,
    pause,
    resume,
    run_now,
    sync_crons,
    upcoming,
)
from scheduling.operations.decorators import action, mutation
from scheduling.operations.functions import Cancellation, cancel, run_after, run_again, run_at
from scheduling.operations.health import Health, health

__all__ = [
    "Backoff",
    "Cancellation",
    "Health",
    "Json",
    "Kind",
    "Missed",
    "OutsideConnection",
    "OutsideProcess",
    "OutsideThread",
    "Overlap",
    "Retry",
    "SchedulingError",
    "SecondConnection",
    "Status",
    "CancelVerdict",
    "WriteOutsideMutation",
    "action",
    "cancel",
    "cron",
    "daily",
    "declare",
    "fire_due",
    "hasten",
    "health",
    "hourly",
    "interval",
    "monthly",
    "mutation",
    "pause",
    "resume",
    "retain",
    "run_after",
    "run_again",
    "run_at",
    "run_due",
    "run_now",
    "sweep",
    "sync_crons",
    "upcoming",
    "weekly",
]
