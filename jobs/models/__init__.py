"""The tables: `work` is what the farm lives by, `lanes` who may take a waiting job, `kinds` the kinds that people make,
`inputs` the files that jobs are given, `history` what its pages keep to look back and to act on many jobs, `presence`
which processes are there, `usage` what each owner's jobs keep, `scores` how each day went."""

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
from jobs.models.inputs import Input, Upload
from jobs.models.kinds import Kind, valid_name
from jobs.models.lanes import Lane, Mark
from jobs.models.presence import Process, Reachability, WorkerFacts
from jobs.models.scores import HealthScore
from jobs.models.usage import ALL_JOBS, Usage, UsageDelta
from jobs.models.work import Attempt, Body, Job, OutputChunk, Queue, Requirement, ResultFile, Share, Worker

__all__ = [
    "ALL_JOBS", "Attempt", "Body", "Bulk", "BulkItem", "Reachability", "HealthScore", "IdempotencyKey", "Input", "Job",
    "Kind", "Lane", "Mark", "Offspring", "Origin", "OutputChunk", "Process", "Queue", "Requirement", "ResultFile",
    "SavedFilter", "Share", "Stage", "Rollup", "RollupWatermark", "Upload", "Usage", "UsageDelta", "Worker",
    "WorkerFacts", "valid_name",
]  # fmt: skip
