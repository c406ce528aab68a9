"""The tables: `work` is what the farm lives by, `workers` who does it, `lanes` who may take a waiting job, `kinds` the
kinds that people make, `flows` which jobs come after others, `inputs` the files that jobs are given, `history` what its
pages keep to look back and to act on many jobs, `presence` which processes are there, `usage` what each owner's jobs
keep."""

from jobs.models.flows import Edge, EndedStep, Flow, FlowTemplate, Signal, Step, Suspension
from jobs.models.history import (
    Bulk,
    BulkItem,
    Checkpoint,
    ContentDeletion,
    HealthScore,
    IdempotencyKey,
    Offspring,
    Origin,
    Rollup,
    RollupWatermark,
    SavedFilter,
    Share,
    Stage,
    Tag,
    ViewToken,
    keeps_content,
)
from jobs.models.inputs import Input, Upload
from jobs.models.kinds import Kind, valid_name
from jobs.models.lanes import Charge, ConcurrencyKey, Lane, Mark, PausedOwner, Served
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
    UniqueKey,
    with_status,
)
from jobs.models.workers import Fair, Queue, Requirement, Weight, Worker
