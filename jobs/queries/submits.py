"""Statements that store new jobs, in the caller's transaction, and the idempotency keys of requests."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple, get_args, get_type_hints

from django.db import OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable

from core.recent import Outdated
from jobs.domain.records import BEHIND, COLUMNS, OF_LIVE, STORED, JobRecord
from jobs.errors import NotUnique
from jobs.models import IdempotencyKey
from postgres import arrays, statements

# From here on two COPYs are cheaper than one INSERT from arrays, although they are four round trips more.
COPIED_FROM = 50
# A twin that stood in the way of the insert and has ended by the next statement; so often in a row, and another came
# each time, that it is no accident.
MOST_TRIES = 10
# A key is deleted an hour later than it stops to count, so that none goes between being found and being read.
DELETED_AFTER_S = 25 * 3600.0
_ROWS_AT_ONCE = 250  # the server stores these while the next are written
_NULL = "\\N"
_TYPES = {str: "text", bool: "boolean", int: "bigint", float: "float8", datetime: "timestamptz"}
_TYPE_OF = {
    name: _TYPES[next(iter(get_args(hint)), hint)] for name, hint in get_type_hints(JobRecord).items() if name in STORED
}
_LANE = ("queue", "priority", "owner_id", "group_id", "requirement_id", "key_id")
_lane_of: Callable[[JobRecord], tuple[Any, ...]] = attrgetter(*_LANE)


class Stored(NamedTuple):
    """A new job's id, times and lane, and what it was stored from."""

    id: int
    created_at: datetime
    run_at: datetime
    expires_at: datetime | None
    limit_until: datetime | None
    lane_id: int
    record: JobRecord
    is_replaced: bool  # an earlier job became this one
    behind_id: int | None  # the job that has to end first


@cache
def statement(name: str) -> statements.Statement:
    """One of the statements that store jobs, with the columns of a JobRecord where its file names them."""
    loaded = statements.load("jobs", name)
    columns = {
        "columns": ", ".join(COLUMNS),
        "of_live": ", ".join(OF_LIVE),
        "stored": ", ".join(STORED),
        "values": ", ".join(f"%({name})s::{sql} AS {name}" for name, sql in _TYPE_OF.items()),
        "assignments": ", ".join(f"{name} = %({name})s::{_TYPE_OF[name]}" for name in COLUMNS),
        "arrays": ", ".join(f"%({name})s::{sql}[]" for name, sql in _TYPE_OF.items()),
    }
    return replace(loaded, sql=loaded.sql.format(**columns))


def one(record: JobRecord) -> Stored | NotUnique:
    """Insert one job, in one statement unless it has a twin, which the answer names.

    A twin that ended before it could be named is in nobody's way: then the job is inserted after all. NotUnique without
    a name: others came and went, MOST_TRIES times. Raises Outdated.
    """
    for _ in range(MOST_TRIES):
        rows = statement("submit_one").run(record._asdict())
        if not rows:
            raise Outdated
        if rows[0].id is not None:
            return Stored._make([*rows[0], record, False, None])
        for twin_id in living_twins([record]).values():
            return NotUnique(job=twin_id)
    return NotUnique(job=None)


def many(records: Sequence[JobRecord]) -> list[Stored | NotUnique]:
    """Insert jobs; an answer for each in that order. One with a twin is left out and the twin is named, as in `one`."""
    if len(records) == 1:
        return [one(records[0])]
    if any(record.unique_key for record in records):
        return _inserted_but_twins(records)
    is_plain = len(records) >= COPIED_FROM and not any(record.limit_name for record in records)
    return [*(_copied(records) if is_plain else _inserted(records).values())]


def keep_tags(stored: Iterable[Stored]) -> None:
    """Let these new jobs be found by their tags; where none has any, nothing is asked of the database."""
    tagged = {one.id: one.record.tags for one in stored if one.record.tags}
    if tagged:
        params = {"id": arrays.plain(tagged), "tags": arrays.literal(tagged.values())}
        statements.load("jobs", "keep_tags").run(params)


def living_twins(records: Sequence[JobRecord]) -> dict[int, int]:
    """Which living job stands in the way of each of these, by its place among them."""
    if not records:
        return {}
    return {row.place - 1: row.id for row in living_keys(records)}


def living_keys(records: Sequence[JobRecord]) -> list[statements.Row]:
    """Of each of these, by its `place` (counts from 1), the living job that has its unique_key, and the one behind."""
    params = {
        name: arrays.literal(getattr(record, name) for record in records) for name in ("owner_id", "kind", "unique_key")
    }
    return statements.load("jobs", "living_twins").run(params)


def replace_job(job_id: int, record: JobRecord) -> tuple[Stored, bool]:
    """Let this locked job, which waits and was never begun, become what the record says; and whether any endpoint of
    the outbox listens."""
    statement("submit_replacing").run(record._asdict() | {"id": job_id})
    params = {"id": job_id, "run_at": record.run_at, "behind": BEHIND, "key_id": record.key_id}
    [[*columns, listens]] = statements.load("jobs", "replaced_live").run(params)
    return Stored._make([*columns, record, True, None]), listens


def follow(holder_id: int, record: JobRecord, *, now: datetime) -> Stored:
    """Insert a job that waits behind this locked one, which has its unique_key."""
    due_at = max(now, record.run_at or now)
    ends_at = record.expires_at
    if ends_at is None and record.expires_s is not None:
        ends_at = due_at + timedelta(seconds=record.expires_s)
    stored = one(record._replace(unique_key=None, run_at=BEHIND, expires_at=ends_at))
    assert isinstance(stored, Stored)
    due_at = max(due_at, stored.limit_until or due_at)
    params = {"id": stored.id, "holder": holder_id, "due_at": due_at, "unique_key": record.unique_key}
    statements.load("jobs", "follow").run(params)
    return stored._replace(record=record, behind_id=holder_id)


def begin_request(owner_id: int, key: str, fingerprint: bytes, *, retention_s: float, wait_s: float) -> bool | None:
    """Note a request under its key; whether it is the first with it in `retention_s` seconds.

    None if the first is still being carried out after `wait_s`: then the transaction is broken, as by any error.
    """
    params = {"owner_id": owner_id, "key": key, "fingerprint": fingerprint, "retention_s": retention_s}
    params["wait_ms"] = f"{wait_s * 1000:.0f}ms"
    try:
        [row] = statements.load("jobs", "idempotency_begin").run(params)
    except OperationalError as error:
        if isinstance(error.__cause__, LockNotAvailable):
            return None
        raise
    return bool(row.is_first)


def known_request(owner_id: int, key: str) -> IdempotencyKey:
    """What is kept under a key that `begin` found."""
    return IdempotencyKey.objects.get(owner_id=owner_id, key=key)


def is_known(owner_id: int, key: str) -> bool:
    return IdempotencyKey.objects.filter(owner_id=owner_id, key=key).exists()


def keep_answer(
    owner_id: int, key: str, *, job_ids: Sequence[int | None], not_unique: Sequence[int], replaced: Sequence[int]
) -> None:
    IdempotencyKey.objects.filter(owner_id=owner_id, key=key).update(
        job_ids=list(job_ids), skipped=list(not_unique), replaced=list(replaced) or None
    )


def forget_request(owner_id: int, key: str) -> None:
    """Let the next request with this key be the first."""
    IdempotencyKey.objects.filter(owner_id=owner_id, key=key).delete()


def forget_requests(limit: int, _: int) -> int:
    """Delete keys that are kept no longer, the oldest first; how many."""
    return len(statements.load("jobs", "idempotency_forget").run({"age_s": DELETED_AFTER_S, "limit": limit}))


def forget_callbacks(limit: int, _: int) -> int:
    """Delete addresses that came with jobs which have ended, the oldest first; how many."""
    return len(statements.load("jobs", "callbacks_forget").run({"limit": limit}))


def _inserted_but_twins(records: Sequence[JobRecord]) -> list[Stored | NotUnique]:
    """All of them once more where a twin has ended meanwhile: with the others stored, the one that was left out would
    come out of the order in which all go in, and could meet another bulk in a circle."""
    for further_tries in reversed(range(MOST_TRIES)):
        with transaction.atomic():
            stored = _inserted(records)
            skipped = [place for place in range(len(records)) if place not in stored]
            twins = living_twins([records[place] for place in skipped])
            if len(twins) == len(skipped) or not further_tries:
                break
            transaction.set_rollback(True)
    named = {place: NotUnique(job=twins.get(n)) for n, place in enumerate(skipped)}
    return [stored.get(place) or named[place] for place in range(len(records))]


def _inserted(records: Sequence[JobRecord]) -> dict[int, Stored]:
    """Those that were stored, by their place among the given."""
    columns = zip(STORED, zip(*records, strict=True), strict=False)
    answers = statement("submit").run({name: arrays.literal(values) for name, values in columns})
    pairs = enumerate(zip(answers, records, strict=True))
    return {place: Stored._make([*row, record, False, None]) for place, (row, record) in pairs if row.id is not None}


def _copied(records: Sequence[JobRecord]) -> list[Stored]:
    """Where none can have a twin or takes of a limit, the database has nothing to say but ids, lanes and the time."""
    due = _lanes(records)
    params: dict[str, Any] = {
        name: arrays.literal(values) for name, values in zip(_LANE, zip(*due, strict=True), strict=True)
    }
    params |= {"due": [at for at, _ in due.values()], "is_now": [now for _, now in due.values()]}
    [numbered] = statements.load("jobs", "number_new").run(params | {"count": len(records)})
    lanes = dict(zip(due, numbered.lanes, strict=True))
    stored = list(_numbered(records, ids=numbered.ids, lanes=lanes, now=numbered.now))
    _copy(statement("copy_jobs"), _records(stored, created_at=str(numbered.now)))
    _copy(statement("copy_live"), _live_rows(stored))
    return stored


def _lanes(records: Sequence[JobRecord]) -> dict[Any, tuple[datetime | None, bool]]:
    """What their lanes have in common; of each the first moment that a job names, and whether one is due at once."""
    due = dict[Any, tuple[datetime | None, bool]]()
    for record in records:
        run_at = _utc(record.run_at)
        first, is_now = due.get(lane := _lane_of(record), (None, False))
        is_earlier = run_at is not None and (first is None or run_at < first)
        due[lane] = run_at if is_earlier else first, is_now or run_at is None
    return due


def _numbered(
    records: Sequence[JobRecord], *, ids: Sequence[int], lanes: Mapping[Any, int], now: datetime
) -> Iterator[Stored]:
    """As submit.sql has it: those due at once are due a microsecond after one another, in the order given."""
    for offset_us, (record, job_id) in enumerate(zip(records, ids, strict=True), start=1 - len(records)):
        run_at, expires_at = _utc(record.run_at), _utc(record.expires_at)
        if expires_at is None and record.expires_s is not None:
            expires_at = max(run_at or now, now) + timedelta(seconds=record.expires_s)
        due_at = run_at or now + timedelta(microseconds=offset_us)
        yield Stored(job_id, now, due_at, expires_at, None, lanes[_lane_of(record)], record, False, None)


def _utc(moment: datetime | None) -> datetime | None:
    return moment and moment.astimezone(UTC)


def _copy(target: statements.Statement, rows: Iterator[str]) -> None:
    with connection.cursor() as cursor, cursor.copy(target.sql) as copy:
        while several := "".join(islice(rows, _ROWS_AT_ONCE)):
            copy.write(several)


def _records(stored: Sequence[Stored], *, created_at: str) -> Iterator[str]:
    in_common = _in_common(COLUMNS)
    for one in stored:
        # JSON has no raw tab or line break; its backslashes are what COPY reads as its own.
        payload = one.record.payload.replace("\\", "\\\\")
        body = f"{one.expires_at or _NULL}\t{payload}\t{one.record.traceparent or _NULL}\t{one.record.tags or _NULL}"
        yield f"{in_common(one.record)}\t{one.id}\t{created_at}\t{body}\n"


def _live_rows(stored: Sequence[Stored]) -> Iterator[str]:
    in_common = _in_common(OF_LIVE)
    for one in stored:
        yield f"{in_common(one.record)}\t{one.id}\t{one.run_at}\t{one.expires_at or _NULL}\t{one.lane_id}\n"


def _in_common(columns: Sequence[str]) -> Callable[[JobRecord], str]:
    """What most jobs of a bulk have in common is written once."""
    of_record: Callable[[JobRecord], tuple[Any, ...]] = attrgetter(*columns)
    shared = dict[Any, str]()

    def written(record: JobRecord) -> str:
        values = of_record(record)
        if values not in shared:
            shared[values] = "\t".join([_NULL if value is None else str(value) for value in values])
        return shared[values]

    return written
