"""What can be done with jobs. Each function is one use case, in one transaction unless it says otherwise."""

from jobs.domain.files import RESULT
from jobs.domain.flows import Wait
from jobs.domain.hooks import Discard, Move, Prepared
from jobs.domain.kinds import Kind, queue_of_model
from jobs.domain.leases import Beat, Lease
from jobs.kinds import declare, declared
from jobs.operations import bulk, flows
from jobs.operations.claim import claim, finish_and_claim
from jobs.operations.content import check as check_content
from jobs.operations.finish import Cancellation, Finished, cancel, cancel_many, finish, release, withdraw
from jobs.operations.flows import (
    SubmittedFlow,
    check_start,
    check_template,
    jobs_of,
    store_flow,
    submit_child,
    submit_flow,
)
from jobs.operations.handed_out import ClaimedJob
from jobs.operations.hooks import Link, links, on_behalf_of, register_links, resync
from jobs.operations.idempotency import Repeatable, done_once, is_known, once, repeatable, was_replaced
from jobs.operations.inputs import (
    delete_upload,
    expires_at,
    keep_upload,
    read_input,
    stored_ahead,
    upload,
    uploaded,
    whole_payload,
)
from jobs.operations.janitor import (
    Sweep,
    delete_lost_files,
    delete_orphaned_files,
    expire,
    next_due_s,
    sweep,
    tend_lanes,
)
from jobs.operations.labels import forget_requirements, preferring_loaded, set_labels
from jobs.operations.new_jobs import JobOptions, NewJob
from jobs.operations.one import (
    change_priority,
    create_view_token,
    lock_waiting,
    move_link,
    reroute,
    revoke_view_token,
    run_now,
    share,
    unshare,
    view_token,
)
from jobs.operations.queues import (
    bound_keys,
    create_kind,
    known_kind,
    pause,
    pause_key,
    pause_owner,
    resume,
    resume_key,
    resume_owner,
    set_ages_after,
    set_ceiling,
    set_fair,
    sync,
)
from jobs.operations.quotas import allowed, setting_of, used
from jobs.operations.report import (
    checkpoint,
    heartbeat,
    heartbeats,
    keep_result,
    put_file,
    write_output,
    write_outputs,
    write_outputs_by_loop,
)
from jobs.operations.rollup import measure_usage, recount_usage, roll_up
from jobs.operations.scores import score_also, score_yesterday
from jobs.operations.submit import check_payload, check_submit, clone, retry, store, store_recent, submit, submit_many
from jobs.operations.waits import signal, signal_by_key
from jobs.operations.workers import (
    authenticate,
    create_worker,
    drain,
    ensure_worker,
    introduce,
    rechecked,
    recognize,
    remembered,
    revoke,
    rotate_key,
    seen,
    undrain,
)
from jobs.queries.fleet import workers_for
from jobs.queries.pages import JobSnapshot, job_with_body as find, pictures, result_file, snapshot
from jobs.queries.reads import (
    broken_jobs,
    count_ended,
    ended,
    errors as last_errors,
    is_operator as sees_all,
    last_attempts,
    output_text,
    statuses,
)
from jobs.queries.rollups import first_event, moments
from jobs.queries.submits import Stored
from jobs.queries.workers import OfferedModel, Offering, held_by, offered_models, workers_of
from jobs.registry import CHECKS, CHORES, CONTENT
