"""The tables: `work` is what the farm lives by, `history` what its pages keep to look back and to act on many jobs,
`presence` which processes are there, `usage` what each owner's jobs keep, `scores` how each day went."""

from jobs.models.history import (
    Bulk,
    BulkItem,
    IdempotencyKey,
    Offspring,
    Origin,
    Rollup,
    RollupWatermark,
    SavedFilter,
    Stage,
)
from jobs.models.presence import Process, Reachability
from jobs.models.scores import HealthScore
from jobs.models.usage import ALL_JOBS, Usage, UsageDelta
from jobs.models.work import (
    Attempt,
    Body,
    Job,
    Kind,
    OutputChunk,
    Queue,
    ResultFile,
    Share,
    Slot,
    Worker,
    valid_name,
)

__all__ = [
    "ALL_JOBS",
    "Attempt",
    "Body",
    "Bulk",
    "BulkItem",
    "Reachability",
    "HealthScore",
    "IdempotencyKey",
    "Job",
    "Kind",
    "Offspring",
    "Origin",
    "OutputChunk",
    "Process",
    "Queue",
    "ResultFile",
    "SavedFilter",
    "Share",
    "Slot",
    "Stage",
    "Rollup",
    "RollupWatermark",
    "Usage",
    "UsageDelta",
    "Worker",
    "valid_name",
]
