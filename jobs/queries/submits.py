"""Statements that store new jobs, in the caller's transaction, and the idempotency keys of requests."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from operator import itemgetter
from typing import Any, NamedTuple

from django.db import OperationalError, connection, transaction
from psycopg.errors import LockNotAvailable

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
_IN_COMMON = (
    "kind", "queue", "priority", "owner_id", "group_id", "token_id", "is_metered", "retry_of_id", "max_attempts",
    "timeout_s", "retry_when_lost", "retry_on_timeout", "requirement_id",
)  # fmt: skip
_BESIDE_THEM = (
    "unique_key", "run_at", "expires_at", "expires_s", "payload", "limit_name", "limit_key", "limit_count",
    "limit_wait_s", "traceparent",
)  # fmt: skip
_OF_LANES = ("queue", "priority", "owner_id", "group_id", "requirement_id")
_AS_NEW = "\tpending\t0\t0\t0\t"


class Stored(NamedTuple):
    """A new job's id, times and lane."""

    id: int
    created_at: datetime
    run_at: datetime
    expires_at: datetime | None
    limit_until: datetime | None
    lane_id: int


class Twin(NamedTuple):
    """The living job that a new one would have been the twin of; None: others came and went, MOST_TRIES times."""

    id: int | None


def one(columns: dict[str, Any]) -> Stored | Twin:
    """Insert one job, in one statement unless it has a twin, which the answer names.

    A twin that ended before it could be named is in nobody's way: then the job is inserted after all.
    """
    for _ in range(MOST_TRIES):
        for row in statements.load("jobs", "submit_one").run(columns):
            return Stored(*row)
        for twin_id in living_twins([columns]).values():
            return Twin(twin_id)
    return Twin(None)


def many(rows: Sequence[dict[str, Any]]) -> list[Stored | Twin]:
    """Insert jobs; an answer for each in that order. One with a twin is left out and the twin is named, as in `one`."""
    if any(row["unique_key"] for row in rows):
        return _inserted_but_twins(rows)
    is_plain = len(rows) >= COPIED_FROM and not any(row["limit_name"] for row in rows)
    return [*(_copied(rows) if is_plain else _inserted(rows).values())]


def living_twins(rows: Sequence[dict[str, Any]]) -> dict[int, int]:
    """Which living job stands in the way of each of these, by its place among them."""
    if not rows:
        return {}
    params = {name: arrays.literal(row[name] for row in rows) for name in ("owner_id", "kind", "unique_key")}
    return {row.place - 1: row.id for row in statements.load("jobs", "living_twins").run(params)}


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


def keep_answer(owner_id: int, key: str, *, job_ids: Sequence[int | None], not_unique: Sequence[int]) -> None:
    IdempotencyKey.objects.filter(owner_id=owner_id, key=key).update(job_ids=list(job_ids), skipped=list(not_unique))


def forget_request(owner_id: int, key: str) -> None:
    """Let the next request with this key be the first."""
    IdempotencyKey.objects.filter(owner_id=owner_id, key=key).delete()


def forget_requests(limit: int, _: int) -> int:
    """Delete keys that are kept no longer, the oldest first; how many."""
    return len(statements.load("jobs", "idempotency_forget").run({"age_s": DELETED_AFTER_S, "limit": limit}))


def _inserted_but_twins(rows: Sequence[dict[str, Any]]) -> list[Stored | Twin]:
    """All of them once more where a twin has ended meanwhile: with the others stored, the one that was left out would
    come out of the order in which all go in, and could meet another bulk in a circle."""
    for further_tries in reversed(range(MOST_TRIES)):
        with transaction.atomic():
            stored = _inserted(rows)
            skipped = [place for place in range(len(rows)) if place not in stored]
            twins = living_twins([rows[place] for place in skipped])
            if len(twins) == len(skipped) or not further_tries:
                break
            transaction.set_rollback(True)
    named = {place: Twin(twins.get(n)) for n, place in enumerate(skipped)}
    return [stored.get(place) or named[place] for place in range(len(rows))]


def _inserted(rows: Sequence[dict[str, Any]]) -> dict[int, Stored]:
    """Those that were stored, by their place among the given."""
    columns = {name: arrays.literal(row[name] for row in rows) for name in (*_IN_COMMON, *_BESIDE_THEM)}
    answers = statements.load("jobs", "submit").run(columns)
    return {place: Stored(*row) for place, row in enumerate(answers) if row.id is not None}


def _copied(rows: Sequence[dict[str, Any]]) -> list[Stored]:
    """Where none can have a twin or takes of a limit, the database has nothing to say but ids, lanes and the time."""
    due = _lanes(rows)
    columns = dict(zip(_OF_LANES, zip(*due, strict=True), strict=True))
    params: dict[str, Any] = {name: arrays.literal(values) for name, values in columns.items()}
    params |= {"due": [at for at, _ in due.values()], "is_now": [now for _, now in due.values()], "count": len(rows)}
    [numbered] = statements.load("jobs", "number_new").run(params)
    lanes = dict(zip(due, numbered.lanes, strict=True))
    stored = list(_stored(rows, ids=numbered.ids, lanes=lanes, now=numbered.now))
    _copy("copy_jobs", _job_rows(rows, stored, created_at=str(numbered.now)))
    _copy("copy_bodies", (_body_row(row, new.id) for row, new in zip(rows, stored, strict=True)))
    return stored


def _lanes(rows: Sequence[dict[str, Any]]) -> dict[Any, tuple[datetime | None, bool]]:
    """What their lanes have in common; of each the first moment that a job names, and whether one is due at once."""
    of_lane, due = itemgetter(*_OF_LANES), dict[Any, tuple[datetime | None, bool]]()
    for row in rows:
        run_at = _utc(row["run_at"])
        first, is_now = due.get(lane := of_lane(row), (None, False))
        is_earlier = run_at is not None and (first is None or run_at < first)
        due[lane] = run_at if is_earlier else first, is_now or run_at is None
    return due


def _stored(
    rows: Sequence[dict[str, Any]], *, ids: Sequence[int], lanes: Mapping[Any, int], now: datetime
) -> Iterator[Stored]:
    """As submit.sql has it: those due at once are due a microsecond after one another, in the order given."""
    of_lane = itemgetter(*_OF_LANES)
    for offset_us, (row, job_id) in enumerate(zip(rows, ids, strict=True), start=1 - len(rows)):
        run_at, expires_at = _utc(row["run_at"]), _utc(row["expires_at"])
        if expires_at is None and row["expires_s"] is not None:
            expires_at = max(run_at or now, now) + timedelta(seconds=row["expires_s"])
        due_at = run_at or now + timedelta(microseconds=offset_us)
        yield Stored(job_id, now, due_at, expires_at, None, lanes[of_lane(row)])


def _utc(moment: datetime | None) -> datetime | None:
    return moment and moment.astimezone(UTC)


def _copy(statement: str, rows: Iterator[str]) -> None:
    with connection.cursor() as cursor, cursor.copy(statements.load("jobs", statement).sql) as copy:
        while several := "".join(islice(rows, _ROWS_AT_ONCE)):
            copy.write(several)


def _job_rows(rows: Sequence[dict[str, Any]], stored: Sequence[Stored], *, created_at: str) -> Iterator[str]:
    """What most jobs of a bulk have in common is written once."""
    in_common, shared = itemgetter(*_IN_COMMON), dict[Any, str]()
    for row, new in zip(rows, stored, strict=True):
        values = in_common(row)
        if values not in shared:
            shared[values] = "\t".join([_NULL if value is None else str(value) for value in values])
        times = f"{created_at}\t{new.run_at}\t{new.expires_at or _NULL}"
        yield f"{new.id}\t{shared[values]}\t{times}{_AS_NEW}{new.lane_id}\n"


def _body_row(row: dict[str, Any], job_id: int) -> str:
    # JSON has no raw tab or line break; its backslashes are what COPY reads as its own.
    payload = row["payload"].replace("\\", "\\\\")
    return f"{job_id}\t{payload}\t{row['traceparent'] or _NULL}\n"
