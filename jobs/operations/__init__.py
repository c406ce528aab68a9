"""What can be done with jobs. Each function is one use case, in one transaction unless it says otherwise."""

from jobs.domain.kinds import Kind
from jobs.domain.leases import Lease
from jobs.kinds import declare
from jobs.operations.claiming import Claimed, claim
from jobs.operations.ending import Cancellation, Finished, cancel, finish, release
from jobs.operations.managing import create_kind, pause, resume, set_ceiling, share, sync, unshare
from jobs.operations.reporting import heartbeat, put_file, write_output
from jobs.operations.submitting import NewJob, retry, submit, submit_many
from jobs.operations.sweeping import Sweep, retain, sweep
from jobs.operations.workers import authenticate, create_worker, ensure_worker, revoke, rotate_key, seen

__all__ = [
    "Cancellation",
    "Claimed",
    "Finished",
    "Kind",
    "Lease",
    "NewJob",
    "Sweep",
    "authenticate",
    "cancel",
    "claim",
    "create_kind",
    "create_worker",
    "declare",
    "ensure_worker",
    "finish",
    "heartbeat",
    "pause",
    "put_file",
    "release",
    "resume",
    "retain",
    "retry",
    "revoke",
    "rotate_key",
    "seen",
    "set_ceiling",
    "share",
    "submit",
    "submit_many",
    "sweep",
    "sync",
    "unshare",
    "write_output",
]
