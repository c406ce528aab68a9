"""The tables: `work` is what the farm lives by, `workers` who does it, `lanes` who may take a waiting job, `kinds` the
kinds that people make, `inputs` the files that jobs are given, `history` what its pages keep to look back and to act on
many jobs, `presence` which processes are there, `usage` what each owner's jobs keep."""

from jobs.models.history import (
    Bulk,
    BulkItem,
    HealthScore,
    IdempotencyKey,
    Offspring,
    Origin,
    Rollup,
    RollupWatermark,
    SavedFilter,
    Stage,
)
from jobs.models.inputs import Input, Upload
from jobs.models.kinds import Kind, valid_name
from jobs.models.lanes import Lane, Mark
from jobs.models.presence import Process, Reachability, WorkerFacts
from jobs.models.usage import ALL_JOBS, Usage, UsageDelta
from jobs.models.work import (
    ENDED_ONES,
    LIVING,
    RUNNING,
    WAITING,
    Attempt,
    Job,
    JobQuerySet,
    Live,
    Outcome,
    OutputChunk,
    ResultFile,
    Share,
    UniqueKey,
    with_status,
)
from jobs.models.workers import Queue, Requirement, Worker

__all__ = [
    "ALL_JOBS", "Attempt", "Bulk", "BulkItem", "ENDED_ONES", "HealthScore", "IdempotencyKey", "Input", "Job",
    "JobQuerySet", "Kind", "LIVING", "Lane", "Live", "Mark", "Offspring", "Origin", "Outcome", "OutputChunk",
    "Process", "Queue", "RUNNING", "Reachability", "Requirement", "ResultFile", "Rollup", "RollupWatermark",
    "SavedFilter", "Share", "Stage", "UniqueKey", "Upload", "Usage", "UsageDelta", "WAITING", "Worker", "WorkerFacts",
    "valid_name", "with_status",
]  # fmt: skip
