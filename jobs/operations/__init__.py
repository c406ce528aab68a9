"""What can be done with jobs. Each function is one use case, in one transaction unless it says otherwise."""

from jobs.domain.hooks import Discard, Move, Prepared
from jobs.domain.kinds import Kind
from jobs.domain.leases import Lease
from jobs.kinds import declare, declared
from jobs.operations import bulk
from jobs.operations.claiming import Claimed, claim
from jobs.operations.ending import Cancellation, Finished, cancel, finish, release, withdraw
from jobs.operations.hooking import on_behalf_of
from jobs.operations.idempotency import Repeatable, forget_idempotency_keys, once, repeatable
from jobs.operations.linking import Link, links, register_links
from jobs.operations.managing import create_kind, pause, resume, set_ceiling, share, sync, unshare
from jobs.operations.measuring import measure_usage, recount_usage, setting_of, used
from jobs.operations.orphans import delete_orphaned_files
from jobs.operations.reporting import heartbeat, put_file, write_output
from jobs.operations.rescheduling import run_now
from jobs.operations.resync import output_text, resync, statuses, workers_for
from jobs.operations.rollup import roll_up
from jobs.operations.scoring import Score, scores_of_queues, scores_of_workers
from jobs.operations.snapshots import JobSnapshot, pictures, result_file, sees_all, snapshot
from jobs.operations.submitting import NewJob, check_submit, retry, submit, submit_many
from jobs.operations.swapping import finish_and_claim
from jobs.operations.sweeping import Sweep, expire, retain, sweep
from jobs.operations.workers import authenticate, create_worker, ensure_worker, revoke, rotate_key, seen

__all__ = [
    "Cancellation",
    "Claimed",
    "Finished",
    "Kind",
    "Lease",
    "Link",
    "Move",
    "NewJob",
    "Prepared",
    "Repeatable",
    "Score",
    "Discard",
    "JobSnapshot",
    "Sweep",
    "authenticate",
    "bulk",
    "cancel",
    "check_submit",
    "claim",
    "create_kind",
    "create_worker",
    "declare",
    "declared",
    "delete_orphaned_files",
    "ensure_worker",
    "expire",
    "finish",
    "finish_and_claim",
    "forget_idempotency_keys",
    "heartbeat",
    "links",
    "measure_usage",
    "on_behalf_of",
    "once",
    "output_text",
    "pause",
    "pictures",
    "put_file",
    "recount_usage",
    "register_links",
    "release",
    "repeatable",
    "result_file",
    "resume",
    "retain",
    "resync",
    "retry",
    "revoke",
    "roll_up",
    "rotate_key",
    "run_now",
    "scores_of_queues",
    "scores_of_workers",
    "seen",
    "sees_all",
    "set_ceiling",
    "setting_of",
    "share",
    "statuses",
    "snapshot",
    "submit",
    "submit_many",
    "sweep",
    "sync",
    "unshare",
    "used",
    "withdraw",
    "workers_for",
    "write_output",
]
