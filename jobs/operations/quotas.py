"""What jobs may take: of the quotas of waiting jobs, output and files, and of the limit of their kind.

Waiting jobs are not counted on a submit's way: each process knows how many waited some seconds ago and adds what it
lets in itself; only what would be refused by that is counted, and refused by that number alone (docs/adr/0057).

The order of locks is the same for all: rows of jobs, then those of limits (by name and key), then what is written.
Whoever wrote a job first and asked for the limit then would meet a submit of a twin, which holds the limit and waits
to see whether that job has ended, in a circle.
"""

import math
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from django.conf import settings

from core.backoff import LONGEST_S
from jobs.domain import quotas, records
from jobs.domain.kinds import Kind
from jobs.domain.quotas import Ledger, Quota, Room
from jobs.domain.records import JobRecord
from jobs.errors import InvalidValue, QuotaReached, TooManyWaiting
from jobs.models import ALL_JOBS
from jobs.queries import reports, submits, usage
from jobs.queries.reports import NOTHING, FilesUsed
from postgres import transactions
from ratelimits import operations as limits
from ratelimits.domain import LARGEST
from ratelimits.errors import RateLimited, UnknownLimit

OUTPUT: Final = Ledger()  # bytes of output by owner, as this process knows it
# With less room than this an owner's room is read for each piece; a piece has a megabyte at most.
_NEAR_BYTES: Final = 16_000_000
_ANY_BYTES: Final = 2**62
SETTINGS: Final = {
    "waiting jobs": "WAITING_JOBS", "bytes of output": "OUTPUT_BYTES", "files": "FILES", "bytes of files": "FILE_BYTES"
}  # fmt: skip
WAITING: Final = Ledger()
_RETRY_AFTER_S: Final = 10  # waiting jobs leave as workers take them; nobody knows when
_COUNTED_S: Final = 60.0  # what the cron counted is good for so long; then a cluster is missing, and it is counted here
# Where so many wait, counting takes milliseconds: it is done a twentieth of the time at most, however often somebody is
# refused.
_MANY: Final = 10_000
_BEYOND: Final = 1000  # so far over the quota the number in a refusal is exact
Group = tuple[str, str | None]  # the name of a limit, and a key


def refuse_output(*, size: int, pieces: int, of_attempt: int, of_job: int) -> None:
    """Raise QuotaReached for a piece of so many bytes, where so many were written: why the statement left it out."""
    resource = "bytes of output"
    per_piece, per_attempt = allowed("OUTPUT_PIECES_PER_ATTEMPT"), allowed("OUTPUT_BYTES_PER_ATTEMPT")
    refuse_first(
        [
            (Quota(resource=resource, of="attempt", quota=per_attempt, used=of_attempt), size),
            (Quota(resource=resource, of="job", quota=allowed("OUTPUT_BYTES_PER_JOB"), used=of_job), size),
            (Quota(resource="pieces of output", of="attempt", quota=per_piece, used=pieces), 1),
        ]
    )


def output_room() -> Room:
    """How much more output fits, as far as this process knows; a statement more where that was read 5 s ago."""
    _read_output(_near_in_output())
    return _output_room()


def known_output_room() -> Room | None:
    """`output_room` without a statement; None: one is needed."""
    return None if _stale_output(_near_in_output()) else _output_room()


def note_output(owner_id: int | None, size: int) -> None:
    """Count a piece that was stored, without a statement: of who was never read nothing is counted."""
    for owner in (ALL_JOBS, *_counted_in_output(owner_id)):
        OUTPUT.add(owner, size)


def read_output(owner_id: int | None) -> None:
    """Read what an owner with a quota has, if this process has not done so for 5 s: one statement."""
    _read_output(_counted_in_output(owner_id))


def is_output_known(owner_id: int | None) -> bool:
    """Whether `read_output` needs no statement at this moment."""
    return not _stale_output(_counted_in_output(owner_id))


def check_output(owner_id: int | None, size: int) -> None:
    """Read what owner and farm have now, running jobs included; raise QuotaReached if so many bytes have no room."""
    now_s = time.monotonic()
    requested: list[tuple[Quota, int]] = []
    for owner, of, quota in _whose(owner_id, "OUTPUT_BYTES"):
        used = usage.of([owner])[owner].output_bytes + usage.running_output(owner)
        OUTPUT.read(owner, used, now_s=now_s)
        requested.append((Quota(resource="bytes of output", of=of, quota=quota, used=used), size))
    refuse_first(requested)


def lock_files(owner_id: int | None) -> None:
    """Let no other file of this owner be checked until the end of this transaction: their quotas hold exactly."""
    if owner_id is not None and (bound("FILES_PER_OWNER") or bound("FILE_BYTES_PER_OWNER")):
        usage.lock(owner_id)


def check_file(job_id: int, *, owner_id: int | None, attempt: int, name: str, size: int) -> None:
    """Raise QuotaReached if a file of this name and size has no room in this attempt or job, with its owner, or in all.

    One that it replaces is not counted. Of attempt and job it stays true for as long as the caller holds the job's
    lock, of the owner with `lock_files`. Of the farm it is true at this moment: files that come at once may pass it.
    """
    used = reports.files_used(job_id, attempt=attempt, but_for=name)
    refuse_first(_of_job(used, size))
    refuse_first(_of_owner(used, size, owner_id=owner_id))


def check_upload(owner_id: int | None, size: int) -> None:
    """Raise QuotaReached if an input file of this size has no room with its owner, or in all; `check_file` says for how
    long that is true."""
    refuse_first(_of_owner(NOTHING, size, owner_id=owner_id))


def allowed(setting: str) -> int:
    return int(settings.JOBFARM[setting])


def bound(setting: str) -> int | None:
    """What this setting of an owner or the farm allows; None: there is no quota."""
    return int(settings.JOBFARM[setting]) or None


def refuse_first(requested: Iterable[tuple[Quota, int]]) -> None:
    """Raise QuotaReached for the first of these quotas that has no room for so many more."""
    passed = quotas.first_without_room(requested)
    if passed is not None:
        quota, more = passed
        raise QuotaReached(what=quota.resource, of=quota.of, quota=quota.quota, used=quota.used, more=more)


def used(owner: int) -> list[Quota]:
    """What the jobs of this owner (ALL_JOBS: all) have now, and may have; a quota of 0 is none."""
    stored = usage.of([owner])[owner]
    # Of the farm what the cron counted, where it did lately; else counted up to some more than the quota.
    waiting = stored.waiting if owner == ALL_JOBS and _is_counted(stored) else _counted(owner)
    of = "farm" if owner == ALL_JOBS else "owner"
    numbers = dict(zip(SETTINGS, (waiting, stored.output_bytes, stored.files, stored.file_bytes), strict=True))
    return [
        Quota(resource=resource, of=of, quota=allowed(setting_of(resource, of=of)), used=max(0, number))
        for resource, number in numbers.items()
    ]


def setting_of(resource: str, *, of: str) -> str:
    """The setting that says how much of this an owner or the farm may have."""
    return f"{SETTINGS[resource]}_{'IN_ALL' if of == 'farm' else 'PER_OWNER'}"


def admit(new: Sequence[JobRecord]) -> None:
    """Raise TooManyWaiting unless all of these new jobs may wait; of those with a living twin, which are not stored,
    nothing is asked.

    Jobs without an owner are under the quota in all alone. What is let in is counted by this process at once and by
    the others within some seconds: so much may pass a quota.
    """
    counts = Counter(one.owner_id for one in new if one.owner_id is not None)
    counts[ALL_JOBS] = len(new)
    per_owner, in_all = bound("WAITING_JOBS_PER_OWNER"), bound("WAITING_JOBS_IN_ALL")
    bounds = {owner: in_all if owner == ALL_JOBS else per_owner for owner in counts}
    _read_waiting([owner for owner, quota in bounds.items() if quota is not None])
    for owner, quota in bounds.items():
        if quota is not None and WAITING.used(owner) + counts[owner] > quota:
            _check_waiting(owner, quota, [one for one in new if owner in {ALL_JOBS, one.owner_id}])
    for owner, count in counts.items():
        WAITING.add(owner, count)


def check_limit_count(kind: Kind, count: float | None) -> None:
    """Raise InvalidValue unless a job of this kind may take `count` tokens instead of the kind's own number."""
    if count is None:
        return
    if kind.limit is None:
        raise InvalidValue(field="limit_count", why=f"the kind {kind.name} takes of no limit")
    if not (math.isfinite(count) and count > 0):
        raise InvalidValue(field="limit_count", why=f"a positive number, got {count}")


def reserved(new: Sequence[JobRecord], *, rng: random.Random) -> Sequence[JobRecord]:
    """Take for these new jobs what their kinds say, ahead of time where it must be; the same with how long each waits.

    One decision for each limit and key, in one order, in the caller's transaction. Raises RateLimited where the limit
    lets nobody so far ahead (`max_reserved`, or five years), CountExceedsLimit where it never will, UnknownLimit for a
    kind whose limit is declared no more; then the caller's transaction takes everything back.
    """
    those = list(new)
    for (name, key), group in _grouped(new):
        waits_s = _waits_s(name, key, [one.limit_count or 0.0 for _, one in group])
        for (place, one), wait_s in zip(group, waits_s, strict=True):
            if wait_s is not None:
                those[place] = one._replace(limit_wait_s=records.with_jitter(wait_s, rng=rng))
    return those


def give_back(jobs: Iterable[Any]) -> None:
    """Put back what these took: they were not stored, or end before they used it. Of one whose limit is declared no
    more, or whose row has no such number, nothing is left to give."""
    for (name, key), group in _grouped(jobs):
        with suppress(UnknownLimit):
            counts = (job.limit_count or 0.0 for _, job in group)
            limits.give_back(name, key=key, count=sum(count for count in counts if 0 < count < LARGEST))


def _counted_in_output(owner_id: int | None) -> list[int]:
    """This owner, if there is one who has a quota of output."""
    return [] if owner_id is None or bound("OUTPUT_BYTES_PER_OWNER") is None else [owner_id]


def _near_in_output() -> list[int]:
    """Those whose room counts for the next pieces: owners near their quota, and all if they have one together."""
    per_owner, in_all = bound("OUTPUT_BYTES_PER_OWNER"), bound("OUTPUT_BYTES_IN_ALL")
    near = [] if per_owner is None else OUTPUT.near(most=per_owner - _NEAR_BYTES)
    return [owner for owner in near if owner != ALL_JOBS] + ([] if in_all is None else [ALL_JOBS])


def _output_room() -> Room:
    per_owner, in_all = allowed("OUTPUT_BYTES_PER_OWNER"), bound("OUTPUT_BYTES_IN_ALL")
    near = (owner for owner in _near_in_output() if owner != ALL_JOBS)
    return Room(
        farm=_ANY_BYTES if in_all is None else max(0, in_all - OUTPUT.used(ALL_JOBS)),
        owners={owner: max(0, per_owner - OUTPUT.used(owner)) for owner in near},
    )


def _read_output(owners: Iterable[int]) -> None:
    if stale := _stale_output(owners):
        now_s = time.monotonic()
        for owner, used in usage.of(stale).items():
            OUTPUT.read(owner, used.output_bytes, now_s=now_s)


def _stale_output(owners: Iterable[int]) -> list[int]:
    now_s = time.monotonic()
    return [owner for owner in owners if not OUTPUT.is_fresh(owner, now_s=now_s)]


def _whose(owner_id: int | None, setting: str) -> Iterator[tuple[int, str, int]]:
    """The owners in whose usage a job of this one is, with the word for it and the quota; none without a quota."""
    if owner_id is not None and (per_owner := bound(f"{setting}_PER_OWNER")) is not None:
        yield owner_id, "owner", per_owner
    if (in_all := bound(f"{setting}_IN_ALL")) is not None:
        yield ALL_JOBS, "farm", in_all


def _of_job(used: FilesUsed, size: int) -> Iterator[tuple[Quota, int]]:
    per_attempt, per_job = allowed("FILES_PER_ATTEMPT"), allowed("FILES_PER_JOB")
    bytes_per_attempt, bytes_per_job = allowed("FILE_BYTES_PER_ATTEMPT"), allowed("FILE_BYTES_PER_JOB")
    resource = "bytes of files"
    yield Quota(resource="files", of="attempt", quota=per_attempt, used=used.files), 1
    yield Quota(resource=resource, of="attempt", quota=bytes_per_attempt, used=used.bytes), size
    yield Quota(resource="files", of="job", quota=per_job, used=used.files_of_job), 1
    yield Quota(resource=resource, of="job", quota=bytes_per_job, used=used.bytes_of_job), size


def _of_owner(used: FilesUsed, size: int, *, owner_id: int | None) -> Iterator[tuple[Quota, int]]:
    stored: dict[int, usage.Row] = usage.of([ALL_JOBS] if owner_id is None else [owner_id, ALL_JOBS])
    for owner, of, quota in _whose(owner_id, "FILES"):
        yield Quota(resource="files", of=of, quota=quota, used=stored[owner].files - used.files_replaced), 1
    for owner, of, quota in _whose(owner_id, "FILE_BYTES"):
        others = stored[owner].file_bytes - used.bytes_replaced
        yield Quota(resource="bytes of files", of=of, quota=quota, used=others), size


def _read_waiting(owners: Sequence[int]) -> None:
    """Of those that this process has not read lately, what the cron counted. Where it has not for long it is counted
    here, but for a serializable transaction, which would collide with all that submit."""
    now_s = time.monotonic()
    if not (stale := [owner for owner in owners if not WAITING.is_fresh(owner, now_s=now_s)]):
        return
    for owner, used in usage.of(stale).items():
        if _is_counted(used) or transactions.is_serializable():
            WAITING.read_of_before(owner, used.waiting, now_s=now_s)
        else:
            _counted(owner)


def _check_waiting(owner: int, quota: int, new: Sequence[JobRecord]) -> None:
    """Count, and raise TooManyWaiting where these have no room."""
    of = "farm" if owner == ALL_JOBS else "owner"
    used = _counted(owner)
    more = len(new)
    if used + more > quota:
        more -= len(submits.living_twins([one for one in new if one.unique_key]))
    if more and used + more > quota:
        raise TooManyWaiting(what="waiting jobs", of=of, quota=quota, used=used, more=more, retry_after=_RETRY_AFTER_S)


def _is_counted(stored: usage.Row) -> bool:
    return stored.counted_ago_s is not None and stored.counted_ago_s < _COUNTED_S


def _counted(owner: int) -> int:
    """How many wait now. Where many were counted a moment ago: how many waited then, and what came since."""
    began_s = time.monotonic()
    if WAITING.is_spared(owner, now_s=began_s):
        return WAITING.used(owner)
    setting = "WAITING_JOBS_IN_ALL" if owner == ALL_JOBS else "WAITING_JOBS_PER_OWNER"
    used = usage.waiting(owner, limit=allowed(setting) + _BEYOND)
    until_s = began_s + 20 * (time.monotonic() - began_s) if used > _MANY else 0.0
    WAITING.read(owner, used, now_s=began_s, spared_until_s=until_s)
    return used


def _grouped(jobs: Iterable[Any]) -> list[tuple[Group, list[tuple[int, Any]]]]:
    """The jobs that took of a limit, with their places, by limit and key, in the order in which all lock them."""
    groups: dict[Group, list[tuple[int, Any]]] = defaultdict(list)
    for place, job in enumerate(jobs):
        if job.limit_name is not None:
            groups[job.limit_name, job.limit_key].append((place, job))
    return sorted(groups.items(), key=lambda entry: (entry[0][0], entry[0][1] or ""))


def _waits_s(name: str, key: str | None, counts: Sequence[float]) -> list[float | None]:
    answer = limits.limit(name, key=key, count=sum(counts), reserve=True)
    wait = answer.retry_after
    if wait is not None and not (answer.ok and wait <= timedelta(seconds=LONGEST_S)):
        raise RateLimited(name=name, key=key, retry_after=wait)
    assert answer.remaining is not None  # it was granted
    last_s = None if wait is None else wait.total_seconds()
    return records.waits_s(limits.config_of(name), counts, remaining=answer.remaining, last_s=last_s)
