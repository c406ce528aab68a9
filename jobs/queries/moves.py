"""Statements that change jobs. Those that settle expect the caller's transaction to hold the rows' locks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models.functions import Now

from core.recent import Outdated
from jobs.domain import presence
from jobs.domain.flows import RESULTS_BYTES
from jobs.domain.leases import Beat, Lease, new_secrets
from jobs.domain.outputs import Piece
from jobs.domain.quotas import Room
from jobs.domain.states import AttemptOutcome, Status
from jobs.models import Checkpoint, Live, Offspring, Origin, ResultFile, Worker
from postgres import arrays, by_loop, statements

Row = statements.Row
ALL_LANES: Final = 10**9  # more than there are (sql/claim.sql)
Run = tuple[int, Lease, float]  # a job, and for how many seconds it ran under this lease
LOCKED_MS: Final = 500  # most rows are locked for milliseconds: what a worker says of its job is not lost to that
_WAIT: Final = f"{LOCKED_MS}ms"
CLAIMS: Final = 3  # of one call, whose statements each see what was committed before


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How one running job goes on: what `settle` writes. `avoid`: workers that leave it to others for a while;
    `run_at`: when it is due where it is suspended; `blames_worker`: after a failure its own is one of them."""

    job_id: int
    fence: int
    status: Status
    failures: int
    delay_s: float = 0.0
    avoid: Sequence[int] = ()
    outcome: AttemptOutcome | None = None
    error: str | None = None
    result: str | None = None
    releases: int = 0
    unconfirmed: int = 0
    run_at: datetime | None = None
    blames_worker: bool = True


def keep_origin(job_ids: Sequence[int], *, function_id: int) -> None:
    Origin.objects.bulk_create([Origin(job_id=job_id, function_id=function_id) for job_id in job_ids])


def keep_offspring(job_id: int, *, function_ids: Sequence[int]) -> None:
    """Remember which functions this job's moves scheduled."""
    Offspring.objects.bulk_create([Offspring(job_id=job_id, function_id=made) for made in function_ids])


def claim(
    worker: Worker, *, queues: Sequence[str], limit: int, only_if_idle: bool, request: UUID | None = None
) -> list[Row]:
    """Lease up to `limit` jobs; `request` says which of the worker's calls it is. Raises Outdated."""
    call = claim_call(worker, queues=queues, limit=limit, only_if_idle=only_if_idle, request=request)
    [rows] = statements.together([call])
    return _leased(call, rows if only_if_idle else _known(worker, rows))


def claim_named(worker: Worker, *, queues: Sequence[str], limit: int, request: UUID) -> tuple[list[Row], list[Row]]:
    """`claimed_before`, then `claim`, as if that had claimed nothing, in one round trip. Raises Outdated."""
    claim = claim_call(worker, queues=queues, limit=limit, request=request)
    before, rows = statements.together([_claimed_before(worker, request), claim])
    return before, _leased(claim, _known(worker, rows))


def claim_call(
    worker: Worker, *, queues: Sequence[str], limit: int, only_if_idle: bool = False, request: UUID | None = None
) -> statements.Call:
    """What `claim` runs, for `statements.together` and for EXPLAIN."""
    return statements.load("jobs", "claim"), {
        "worker": worker.pk, "worker_name": worker.name, "version": worker.version, "request": request,
        "queues": list(queues), "limit": limit, "lanes": ALL_LANES, "only_if_idle": only_if_idle,
        "confirm_s": settings.JOBFARM["HEARTBEAT_S"], "grace_s": settings.JOBFARM["EXCLUSION_S"],
        "results_bytes": RESULTS_BYTES, "secrets": arrays.plain(new_secrets(limit)), **taking(),
    }  # fmt: skip


def succeed_call(worker: Worker, leases: Sequence[tuple[int, Lease]], results: Sequence[str | None]) -> statements.Call:
    """What `succeed` runs, for `statements.together` and for EXPLAIN."""
    more = {"result": arrays.literal(results), "wait": _WAIT}
    return statements.load("jobs", "succeed"), _leases(worker, leases) | more


def claimed_before(worker: Worker, request: UUID) -> list[Row]:
    """What this call of the worker claimed when it was made before, as far as no call has named it since; renewed."""
    [rows] = statements.together([_claimed_before(worker, request)])
    return rows


def past_leases(worker: Worker, leases: Sequence[tuple[int, Lease]]) -> list[Row]:
    """For each of these (job id, lease) pairs, which hold nothing, what became of it; rows in order."""
    return statements.load("jobs", "past_leases").run(_leases(worker, leases))


def taking() -> dict[str, float]:
    """What `jobs_takes_until` is to know beside a requirement and a worker's labels (docs/adr/0085)."""
    farm = settings.JOBFARM
    return {"head_start_s": farm["HEAD_START_S"], "alive_s": farm["WORKER_ALIVE_S"]}


def heartbeat(worker: Worker, beats: Sequence[Beat]) -> list[Row]:
    """Renew these leases; a row of `place` (counts from 1), `lease_expires_at` and `next_seq` for each that is not
    lost, and whose job no other session has locked. Raises Outdated."""
    columns = {name: arrays.literal([getattr(beat, name) for beat in beats]) for name in ("progress", "detail")}
    more = {"lease_s": settings.JOBFARM["LEASE_S"], "is_alone": not connection.in_atomic_block}
    leases = _leases(worker, [(beat.job_id, beat.lease) for beat in beats])
    return _known(worker, statements.load("jobs", "heartbeat").run(leases | columns | more))


def lease_ends(worker: Worker, leases: Sequence[tuple[int, Lease]]) -> dict[tuple[int, Lease], datetime] | None:
    """Until when these (job id, lease) pairs hold, of those that do, whoever has their rows locked; None where no call
    has named one of these jobs' leases."""
    running = Live.objects.filter(worker_id=worker.pk, pk__in=[job_id for job_id, _ in leases])
    rows = running.values_list("pk", "fence", "lease_secret", "lease_expires_at", "confirmed_fence")
    ends = {(pk, fence, secret): end for pk, fence, secret, end, _ in rows if end}
    if any(confirmed < fence for _, fence, _, _, confirmed in rows):
        return None
    return {held: ends[key] for held in leases if (key := (held[0], held[1].fence, held[1].secret)) in ends}


def keep_checkpoint(worker: Worker, job_id: int, lease: Lease, *, value: str | None, children: int) -> list[Row]:
    """Keep this JSON text as the checkpoint of the job that the lease holds, None: no checkpoint; a row with its
    `lease_expires_at`, none if it is lost. `children`: how many it had submitted by then. Raises Outdated."""
    held = {"worker": worker.pk, "version": worker.version, "job": job_id, "fence": lease.fence, "secret": lease.secret}
    more = {"value": value, "children": children, "lease_s": settings.JOBFARM["LEASE_S"], "wait": _WAIT}
    return _known(worker, statements.load("jobs", "keep_checkpoint").run(held | more))


def checkpoints(job_ids: Sequence[int]) -> dict[int, Checkpoint]:
    """What those of these jobs that have kept something kept last, by id. Of no jobs nothing is read."""
    return Checkpoint.objects.in_bulk(job_ids) if job_ids else {}


def inherit_checkpoint(job_id: int, kept: Checkpoint) -> None:
    """Let a new job begin with what another one had kept."""
    Checkpoint.objects.create(
        job_id=job_id, fence=0, value=kept.value, children=kept.children, written_at=kept.written_at
    )
    Live.objects.filter(pk=job_id).update(has_checkpoint=True)


def write_output(worker: Worker, pieces: Sequence[Piece], *, room: Room) -> list[Row]:
    """Store those pieces of output, of a job each, that are the next ones and that the quotas have room for.

    A row of `place` (counts from 1), `next_seq`, `stored`, `fits` (into attempt and job) and `has_room` (of owner and
    farm, as `room` has it), with how much was written before; no row for a piece whose lease is lost. Raises Outdated.
    """
    return _known(worker, statements.load("jobs", "write_output").run(_output(worker, pieces, room)))


async def write_output_by_loop(worker: Worker, pieces: Sequence[Piece], *, room: Room) -> list[Row] | None:
    """`write_output` by the event loop, where a worker that changed has no rows. None, and raises NoAnswer, as
    postgres.by_loop."""
    return await by_loop.run(statements.load("jobs", "write_output"), _output(worker, pieces, room))


def _output(worker: Worker, pieces: Sequence[Piece], room: Room) -> dict[str, Any]:
    farm = settings.JOBFARM
    quotas = {
        "attempt_quota": farm["OUTPUT_BYTES_PER_ATTEMPT"], "piece_quota": farm["OUTPUT_PIECES_PER_ATTEMPT"],
        "job_quota": farm["OUTPUT_BYTES_PER_JOB"], "lease_s": farm["LEASE_S"],
    }  # fmt: skip
    rooms = {"farm_room": room.farm, "near": arrays.plain(room.owners), "room": arrays.plain(room.owners.values())}
    columns = {name: arrays.literal([getattr(piece, name) for piece in pieces]) for name in ("seq", "text", "size")}
    leases = _leases(worker, [(piece.job_id, piece.lease) for piece in pieces])
    return leases | columns | quotas | rooms


def lock_held(worker: Worker, leases: Sequence[tuple[int, Lease]], *, skips: bool = False) -> list[Row]:
    """Lock the jobs that these (job id, lease) pairs still hold, ordered by id; with `skips` none that others have
    locked. From here on the transaction waits for no lock for longer than LOCKED_MS. Raises Outdated."""
    locking, more = statements.load("jobs", "lock_held"), {"grace_s": settings.JOBFARM["EXCLUSION_S"], "wait": _WAIT}
    if skips:
        locking = replace(locking, sql=locking.sql.replace("FOR UPDATE", "FOR UPDATE SKIP LOCKED"))
    return _known(worker, locking.run(_leases(worker, leases) | more))


def note_runs(worker: Worker, runs: Sequence[Run]) -> None:
    """Let jobs of fair queues have begun so long ago, if that is later than they count from."""
    if calls := _note_runs(worker, runs):
        statements.together(calls)


def _note_runs(worker: Worker, runs: Sequence[Run]) -> list[statements.Call]:
    if not runs:
        return []
    ran_s = [float(ran_s) for _, _, ran_s in runs]
    more = {"ran_s": ran_s, "confirm_s": settings.JOBFARM["HEARTBEAT_S"], "wait": _WAIT}
    return [(statements.load("jobs", "note_runs"), _leases(worker, [run[:2] for run in runs]) | more)]


def succeed(
    worker: Worker, leases: Sequence[tuple[int, Lease]], *, results: Sequence[str | None], runs: Sequence[Run] = ()
) -> list[Row]:
    """End the jobs that these (job id, lease) pairs still hold as successes; a row each, `place` counts from 1. Raises
    Outdated."""
    return succeed_and_claim(worker, leases, results=results, runs=runs)[0]


def succeed_and_claim(
    worker: Worker,
    leases: Sequence[tuple[int, Lease]],
    *,
    results: Sequence[str | None],
    runs: Sequence[Run],
    claim: statements.Call | None = None,
) -> tuple[list[Row], list[Row]]:
    """`succeed`, then what this call claims, whatever of these leases is lost, in one round trip. Raises Outdated."""
    noting, claims = _note_runs(worker, runs), [] if claim is None else [claim]
    rows = statements.together([*noting, succeed_call(worker, leases, results), *claims])[len(noting) :]
    ended = [row for row in _known(worker, rows[0]) if not row.moved]
    if len(ended) < len(rows[0]):
        # Whom another one was changing is locked by now, and seen by a statement that begins now.
        ended += succeed(worker, leases, results=results)
    return ended, [] if claim is None else _leased(claim, _known(worker, rows[1]))


def lock_overdue(limit: int, but_for: Sequence[int] = ()) -> list[Row]:
    """Lock running jobs whose lease or time ran out, except these ids, and those somebody else has locked.

    None while the farm is unreachable for its workers, nor for a grace after that (`jobs.domain.presence`).
    """
    lease_s = settings.JOBFARM["LEASE_S"]
    grace_s = settings.JOBFARM["EXCLUSION_S"]
    params = {"limit": limit, "lease_s": lease_s, "but_for": list(but_for), "avoid_s": grace_s, **absence()}
    return statements.load("jobs", "lock_overdue").run(params)


def absence() -> dict[str, float]:
    """After how many seconds of silence the farm counts as away, and for how long after that no lease ends."""
    farm = settings.JOBFARM
    return {"gap_s": presence.gap_s(farm["LEASE_S"]), "grace_s": presence.grace_s(farm["HEARTBEAT_S"])}


def settle(settlements: Sequence[Settlement]) -> list[Row]:
    """Apply settlements to running jobs, in one statement. Returns the rows that moved."""
    # `avoid` as texts: the elements of PostgreSQL's own arrays cannot be of different lengths.
    same = ("fence", "failures", "error", "result", "releases", "unconfirmed", "run_at")
    return statements.load("jobs", "settle").run(
        {
            "job": [s.job_id for s in settlements],
            "status": [s.status.value for s in settlements],
            "delay_s": [float(s.delay_s) for s in settlements],
            "avoid": [arrays.plain(s.avoid) for s in settlements],
            "outcome": [s.outcome and s.outcome.value for s in settlements],
            **{name: [getattr(s, name) for s in settlements] for name in same},
        }
    )


def jobs_others_could_take(jobs: Sequence[tuple[Row, Sequence[int]]]) -> set[int]:
    """Of these (locked job row, workers it would avoid), the ids for which another live worker exists."""
    columns = {"job": "id", "queue": "queue", "owner": "owner_id", "group": "group_id", "requirement": "requirement_id"}
    more = {"avoid": [arrays.plain(avoid) for _, avoid in jobs], "alive_s": settings.JOBFARM["WORKER_ALIVE_S"]}
    rows = statements.load("jobs", "others_could_take").run(
        {name: [getattr(row, column) for row, _ in jobs] for name, column in columns.items()} | more
    )
    return {row.job_id for row in rows}


def end_waiting(job_ids: Sequence[int], status: Status) -> int:
    """End these waiting jobs as canceled or timed out; how many rows that changed."""
    return len(statements.load("jobs", "end_waiting").run({"ids": list(job_ids), "status": status.value}))


def followers_now_due(job_ids: Sequence[int]) -> list[Row]:
    """Which waiting jobs have the unique_keys that these ended jobs had."""
    return statements.load("jobs", "followers_now_due").run({"ids": list(job_ids)})


def note_detail(job_id: int, detail: str) -> None:
    """Show this where a living job's progress is."""
    Live.objects.filter(pk=job_id).update(detail=detail[:200])


def lock_expired(limit: int, but_for: Sequence[int] = ()) -> list[Row]:
    """Lock waiting jobs whose time to start has passed, except these ids, and those somebody else has locked."""
    return statements.load("jobs", "lock_expired").run({"limit": limit, "but_for": list(but_for)})


def retain(*, age_s: float, limit: int, skip: int = 0) -> list[Row]:
    """Delete up to `limit` jobs that ended longer ago than `age_s`, after the first so many; a row each with the names
    of its stored files."""
    return statements.load("jobs", "retain").run({"age_s": age_s, "limit": limit, "skip": skip})


def stored_file(job_id: int, *, attempt: int, name: str) -> str | None:
    """Where the storage keeps this file of an attempt, if it was handed in already."""
    files = ResultFile.objects.filter(job_id=job_id, attempt=attempt, name=name)
    return files.values_list("stored_as", flat=True).first()


def keep_file(job_id: int, *, attempt: int, name: str, stored_as: str, size: int, sha256: str) -> ResultFile:
    """Remember a stored file; the same name again in one attempt replaces the entry."""
    file, _ = ResultFile.objects.update_or_create(
        job_id=job_id, attempt=attempt, name=name,
        defaults={"stored_as": stored_as, "size": size, "sha256": sha256, "created_at": Now()},
    )  # fmt: skip
    return file


def _known(worker: Worker, rows: list[Row]) -> list[Row]:
    """These rows. Raises Outdated where there is none, since a remembered worker may be another one by now."""
    if not rows and worker.version is not None:
        raise Outdated
    return rows


def _leased(claim: statements.Call, rows: list[Row]) -> list[Row]:
    """The jobs of a claim, without the row that says that there is a worker.

    What is picked of a fair queue may have come after the statement began, which then cannot lease it, and its lock
    kept others away. So where nothing was leased of what was picked the claim is made again.
    """
    leased = [row for row in rows if row.id]
    for _ in range(CLAIMS):
        if leased or not (rows and rows[0].was_picked):  # each row says the same of that
            break
        [rows] = statements.together([claim])
        leased = [row for row in rows if row.id]
    return leased


def _claimed_before(worker: Worker, request: UUID) -> statements.Call:
    confirm_s = settings.JOBFARM["HEARTBEAT_S"]
    params = {"worker": worker.pk, "request": request, "confirm_s": confirm_s, "results_bytes": RESULTS_BYTES}
    return statements.load("jobs", "claimed_before"), params


def _leases(worker: Worker, leases: Sequence[tuple[int, Lease]]) -> dict[str, Any]:
    columns = zip(*[(job_id, lease.fence, lease.secret) for job_id, lease in leases], strict=True)
    jobs, fences, secrets = map(arrays.plain, columns if leases else ((), (), ()))
    return {"worker": worker.pk, "version": worker.version, "job": jobs, "fence": fences, "secret": secrets}


def analyze(tables: Sequence[str]) -> None:
    """Have PostgreSQL count these tables anew. One that somebody else counts at this moment is left to them, as is one
    that this role does not own."""
    for table in tables:
        with connection.cursor() as cursor:
            cursor.execute(f"ANALYZE (SKIP_LOCKED) {connection.ops.quote_name(table)}")
