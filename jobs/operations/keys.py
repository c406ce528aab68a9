"""Concurrency keys of new jobs: which they are, and what becomes of a job whose key has as many as may run."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from jobs.domain.kinds import Kind
from jobs.domain.records import JobRecord
from jobs.errors import KeyIsFull
from jobs.models import Job
from jobs.operations import finish
from jobs.queries import keys
from jobs.queries.submits import Stored

AT_ONCE = 1000  # canceled by one submit: more there are only of a kind that let everything wait before


def interned(records: Sequence[JobRecord]) -> Sequence[JobRecord]:
    """These new jobs with the ids of their concurrency keys."""
    named = {(one.key_scope, one.concurrency_key or ""): None for one in records if one.key_scope}
    if not named:
        return records
    ids = keys.key_ids(named)
    return [
        one._replace(key_id=ids[one.key_scope, one.concurrency_key or ""]) if one.key_scope else one for one in records
    ]


def check_overflow(records: Sequence[JobRecord], kinds: Mapping[str, Kind], *, replaced: Collection[Job] = ()) -> None:
    """Let nobody else submit with the keys of kinds that do not let everything wait, until the transaction ends. Raises
    KeyIsFull where a kind refuses what is more than may run; those that are `replaced` do not count."""
    bounded = {one.key_id: one for one in records if one.key_id is not None and kinds[one.kind].on_overflow != "wait"}
    if not bounded:
        return
    keys.lock_keys(bounded)
    amounts = Counter(one.key_id for one in records)
    for key_id, one in bounded.items():
        kind = kinds[one.kind]
        if kind.on_overflow == "refuse" and kind.concurrency is not None:
            living = len({row.pk for row in keys.living_of_key(key_id)} - {job.pk for job in replaced})
            if living + amounts[key_id] > kind.concurrency:
                raise KeyIsFull(key=one.concurrency_key or "", kind=kind.name, most=kind.concurrency, living=living)


def cancel_overflow(stored: Sequence[Stored], kinds: Mapping[str, Kind]) -> None:
    """Cancel what these jobs, the newest of their keys, take the place of: of their owners' jobs, since what is
    another's nobody cancels."""
    ids, records = {one.id for one in stored}, [one.record for one in stored]
    newest = {(one.key_id, one.owner_id): kinds[one.kind] for one in records if one.key_id is not None}
    for (key_id, owner_id), kind in newest.items():
        if kind.concurrency is None or not kind.on_overflow.startswith("cancel"):
            continue
        living, is_any = keys.living_of_key(key_id), kind.on_overflow == "cancel_running"
        own = [row.pk for row in living if row.owner_id == owner_id and (is_any or not row.lease_secret)]
        surplus = max(len(living) - kind.concurrency, 0)
        own.sort(key=lambda pk: pk in ids)  # a job that became another's is as new
        if oldest := own[:-1][: min(surplus, AT_ONCE)]:
            finish.cancel_many(oldest, by=None, is_waiting=not is_any)
