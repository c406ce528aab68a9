"""Keys of new jobs: unique_keys that living jobs have, where these do not just give way to them (docs/adr/0123), and
concurrency keys: which they are, and what becomes of a job whose key has as many as may run."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobs.domain.kinds import Kind
from jobs.domain.records import JobRecord, OnConflict
from jobs.domain.states import Status
from jobs.errors import InvalidValue, KeyIsFull, NotUnique
from jobs.models import Job
from jobs.operations import finish
from jobs.queries import keys, reads, submits
from jobs.queries.submits import Stored
from postgres import clock

AT_ONCE = 1000  # canceled by one submit: more there are only of a kind that let everything wait before


@dataclass(slots=True, kw_only=True)
class Places:
    """Where new jobs go, by their place in the call: those that become an earlier one's `target`, those that wait
    behind one, those that were refused, and those of which a later one of the same call (`repeats`) has the key.
    `listens`: whether endpoints of the outbox hear of targets; known once they are written."""

    now: datetime
    records: list[JobRecord]
    targets: dict[int, Job] = field(default_factory=dict)
    behind: dict[int, int] = field(default_factory=dict)
    refused: dict[int, NotUnique] = field(default_factory=dict)
    repeats: dict[int, int] = field(default_factory=dict)
    listens: bool = False

    @property
    def stored(self) -> list[int]:
        """The places of those that are written."""
        return [place for place in range(len(self.records)) if not {place} & (self.refused.keys() | self.repeats)]

    @property
    def new(self) -> list[JobRecord]:
        """Those that are jobs of their own."""
        return [self.records[place] for place in self.stored if place not in self.targets]

    def write(self, records: Sequence[JobRecord]) -> list[Stored | NotUnique]:
        """Store those that are written, as they are by now: an answer for each in that order."""
        those = dict(zip(self.stored, records, strict=True))
        alone = [place for place in those if place not in self.targets and place not in self.behind]
        answers = dict(zip(alone, submits.many([those[place] for place in alone]) if alone else [], strict=True))
        for place, job in sorted(self.targets.items(), key=lambda entry: entry[1].pk):
            answers[place], self.listens = submits.replace_job(job.pk, those[place])
        for place, holder_id in self.behind.items():
            answers[place] = submits.follow(holder_id, those[place], now=self.now)
        return [answers[place] for place in self.stored]

    def answers(self, stored: Sequence[Stored | NotUnique]) -> list[Stored | NotUnique]:
        """The answers for all, of those for what was written."""
        answers = dict(zip(self.stored, stored, strict=True)) | self.refused
        for place, later in self.repeats.items():
            answer = answers[later]
            answers[place] = answer._replace(is_replaced=True) if isinstance(answer, Stored) else answer
        return [answers[place] for place in range(len(self.records))]

    def were_taken(self, answers: Sequence[Stored | NotUnique]) -> bool:
        """Whether a key that nobody had was taken before the insert by somebody who is not to be left alone."""
        taken = (place for place in self.stored if isinstance(answers[place], NotUnique))
        return any(self.records[place].on_conflict for place in taken)


def placed(records: Sequence[JobRecord]) -> Places:
    """Lock the living jobs that have the keys of these, and decide. In the caller's transaction: until it ends no
    worker gets one that is replaced, and none ends that another is to wait behind.

    A key that nobody has is not locked: who submits it meanwhile is met at the insert. Raises InvalidValue for jobs of
    one call with one key that differ in what they say of that.
    """
    last = _last_of_each_key(records)
    keyed = sorted(last.values())
    holders, jobs = _locked([records[place] for place in keyed])
    later = {place: last.get(_key(record), place) for place, record in enumerate(records)}
    repeats = {place: one for place, one in later.items() if one != place}
    places = Places(now=clock.now(), records=list(records), repeats=repeats)
    for n, place in enumerate(keyed):
        holder, follower = (jobs.get(job_id or 0) for job_id in holders.get(n, (None, None)))
        if holder is not None:
            _decide(places, place, holder=holder, follower=follower)
        if (debounce := records[place].debounce) is not None:
            first = places.targets[place].created_at if place in places.targets else places.now
            run_at = debounce.run_at(first=first, now=places.now)
            places.records[place] = records[place]._replace(run_at=run_at)
    return places


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


def _key(record: JobRecord) -> tuple[str, str | None, int | None]:
    return record.kind, record.unique_key, record.owner_id


def _last_of_each_key(records: Sequence[JobRecord]) -> dict[Any, int]:
    last: dict[Any, int] = {}
    for place, record in enumerate(records):
        if record.unique_key is None:
            continue
        key = _key(record)
        if key in last and records[last[key]].on_conflict is not record.on_conflict:
            raise InvalidValue(field="on_conflict", why="jobs of one call with one unique_key say the same of it")
        if record.on_conflict is not None:
            last[key] = place
        else:
            last.setdefault(key, place)
    return {key: place for key, place in last.items() if records[place].on_conflict is not None}


def _locked(records: Sequence[JobRecord]) -> tuple[dict[int, tuple[int, int | None]], dict[int, Job]]:
    """Of each the job that has its key, and the one behind that; and these jobs, locked. Looked up until they are the
    same after the lock: whoever changes a key holds the lock of its job."""
    holders = _holders(records)
    for _ in range(submits.MOST_TRIES):
        ids = {job_id for pair in holders.values() for job_id in pair if job_id is not None}
        locked = reads.lock_living(ids) if ids else []
        before, holders = holders, _holders(records) if ids else holders
        if holders == before and len(locked) == len(ids):
            break
    return holders, Job.objects.in_bulk(locked)


def _holders(records: Sequence[JobRecord]) -> dict[int, tuple[int, int | None]]:
    return {row.place - 1: (row.id, row.follower_id) for row in submits.living_keys(records)} if records else {}


def _decide(places: Places, place: int, *, holder: Job, follower: Job | None) -> None:
    record, waiting = places.records[place], follower or holder
    if waiting.status == Status.PENDING and waiting.confirmed_fence == 0:
        if record.may_cancel or waiting.token_id == record.token_id:
            places.targets[place] = waiting
        else:
            places.refused[place] = NotUnique(job=waiting.pk, reason="of_another_token")
    elif record.on_conflict is OnConflict.AFTER:
        places.behind[place] = holder.pk
    else:
        is_running = holder.status == Status.IN_PROGRESS
        places.refused[place] = NotUnique(job=holder.pk, reason="in_progress" if is_running else "waits_for_retry")
