"""New jobs whose unique_keys living jobs have, and that do not just give way to them (docs/adr/0123)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from jobs.domain.records import JobRecord, OnConflict
from jobs.domain.states import Status
from jobs.errors import InvalidValue, NotUnique
from jobs.models import Job
from jobs.queries import reads, submits
from jobs.queries.submits import Stored
from postgres import clock


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
    places = Places(now=clock.now(), records=list(records), repeats=_repeats(records, last))
    for n, place in enumerate(keyed):
        holder, follower = (jobs.get(job_id or 0) for job_id in holders.get(n, (None, None)))
        if holder is not None:
            _decide(places, place, holder=holder, follower=follower)
        if (debounce := records[place].debounce) is not None:
            first = places.targets[place].created_at if place in places.targets else places.now
            run_at = debounce.run_at(first=first, now=places.now)
            places.records[place] = records[place]._replace(run_at=run_at)
    return places


def _last_of_each_key(records: Sequence[JobRecord]) -> dict[Any, int]:
    last: dict[Any, int] = {}
    for place, record in enumerate(records):
        if record.unique_key is None:
            continue
        key = (record.kind, record.unique_key, record.owner_id)
        if key in last and records[last[key]].on_conflict is not record.on_conflict:
            raise InvalidValue(field="on_conflict", why="jobs of one call with one unique_key say the same of it")
        if record.on_conflict is not None:
            last[key] = place
        else:
            last.setdefault(key, place)
    return {key: place for key, place in last.items() if records[place].on_conflict is not None}


def _repeats(records: Sequence[JobRecord], last: Mapping[Any, int]) -> dict[int, int]:
    """Of those whose key a later one of the call has too: the place of that one."""
    those = ((place, (one.kind, one.unique_key, one.owner_id)) for place, one in enumerate(records))
    return {place: last[key] for place, key in those if key in last and last[key] != place}


def _locked(records: Sequence[JobRecord]) -> tuple[dict[int, tuple[int, int | None]], dict[int, Job]]:
    """Of each the job that has its key, and the one behind that; and these jobs, locked. Looked up until they are the
    same after the lock: whoever changes a key holds the lock of its job."""
    keys = _keys(records)
    for _ in range(submits.MOST_TRIES):
        ids = {job_id for pair in keys.values() for job_id in pair if job_id is not None}
        locked = reads.lock_living(ids) if ids else []
        before, keys = keys, _keys(records) if ids else keys
        if keys == before and len(locked) == len(ids):
            break
    return keys, Job.objects.in_bulk(locked)


def _keys(records: Sequence[JobRecord]) -> dict[int, tuple[int, int | None]]:
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
