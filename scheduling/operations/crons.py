"""Crons: declared in code or made by people (docs/adr/0016), kept as rows, fired by whichever cluster comes first."""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ParamSpec, overload

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import F
from django.db.models.functions import Now

from core.refusal import Refusal, existing
from postgres import clock
from postgres.backend.trips import is_beyond_python
from scheduling import errors, guards, registry
from scheduling.domain import calls, schedules
from scheduling.domain.calls import LIVE, Json, Kind
from scheduling.domain.schedules import Calendar, Interval, Missed, Overlap, Policy, Source
from scheduling.models import Cron, ScheduledFunction
from scheduling.operations import endings, notifications
from scheduling.operations.functions import arguments, insert
from scheduling.queries import crons
from scheduling.queries.functions import NewFunction, living_clusters

P = ParamSpec("P")

log = logging.getLogger(__name__)

_LONGEST_NAME = 100
LONGEST_REASON = 500
_LAST_FIRINGS = 10  # firings whose jobs may live: the last one, and those that were run by hand
_AT_ONCE = 20  # crons fired by one transaction
_LEFT = timedelta(hours=1)  # nobody declares it who lives
_LATE_S = 0.5  # between two looks at a cron that is due, and not fired yet
_hastened_until: dict[tuple[str, float], float] = {}  # a cron within so many seconds; by this process's monotonic clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    name: str
    schedule: Interval | Calendar
    function: registry.Function
    args: Mapping[str, Any]
    policy: Policy


_declared: dict[str, Declared] = {}


# As for `run_after`: see the note [Which arguments a type checker compares].
@overload
def declare(
    name: str, schedule: Interval | Calendar, function: Callable[..., Any] | str, /, *, missed: Missed | str,
    at_most: int = 1, overlap: Overlap | str = Overlap.SKIP, **args: Json,
) -> None: ...  # fmt: skip


@overload
def declare(
    name: str, schedule: Interval | Calendar, function: Callable[..., Any] | str, /, *, overlap: Overlap | str,
    **args: Json,
) -> None: ...  # fmt: skip


@overload
def declare(name: str, schedule: Interval | Calendar, function: str, /, **args: Json) -> None: ...


@overload
def declare(
    name: str, schedule: Interval | Calendar, function: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs
) -> None: ...


def declare(  # type: ignore[misc]  # it takes what any of these names; positional arguments fit none
    name: str, schedule: Interval | Calendar, function: Callable[..., Any] | str, /, *,
    missed: Missed | str = Missed.ONCE, at_most: int = 1, overlap: Overlap | str = Overlap.SKIP, **args: Json,
) -> None:  # fmt: skip
    """Declare a cron in an app's `crons.py`: `declare("clean up", daily(hour=3), clean_up, days=7)`.

    `missed` says what becomes of fire times that passed while nothing ran: "once" runs once for all of them, as soon
    as possible, "skip" counts them, "catch_up" runs the last `at_most` of them. The next fire times stay where they
    are. `overlap` says what happens while an earlier firing has not ended: "skip" or "allow". Raises DuplicateCron,
    BadSchedule, UnknownFunction, BadArguments, NotJson.
    """
    if checked_name(name) in _declared:
        raise errors.DuplicateCron(name=name)
    registered = registry.find(function)
    _declared[name] = Declared(
        name=name,
        schedule=schedule,
        function=registered,
        args=calls.checked(args, signature=registered.signature, name=registered.name),
        policy=Policy(missed=Missed(missed), at_most=at_most, overlap=Overlap(overlap)),
    )


def checked_name(name: str) -> str:
    """The name as it is. Raises BadSchedule."""
    is_short = len(name.strip()) > 0 and len(name) <= _LONGEST_NAME
    if not (name.isprintable() and is_short) or "/" in name or name.endswith("*"):  # which means more to live topics
        raise errors.BadSchedule(
            why=f"a cron's name is printable, without /, ends with no *, at most {_LONGEST_NAME} characters: {name!r}"
        )
    return name


def sync_crons() -> None:
    """Make the rows of crons say what the code declares.

    A new cron gets its first fire time, one with another schedule begins anew; one that nobody declares any more is
    retired and keeps its history: where another cluster lives, which may be of a version that declares it, only once
    none has fired it within an hour (`reconcile`). Pauses and fire times of the others stay, and so does what a person
    changed; crons that people made are not touched, unless code declares one of that name.
    """
    with transaction.atomic():
        now = clock.now()
        rows = {row.pk: row for row in Cron.objects.select_for_update().order_by("name")}  # in one order
        for name, declared in sorted(_declared.items()):
            _sync(declared, rows.get(name), now=now)
        if not living_clusters():
            crons.retire([n for n, row in rows.items() if n not in _declared and row.source != Source.PERSON])


def reconcile() -> None:
    """Retire what no cluster has fired for an hour and is not declared here, and take back what is, and was retired by
    a cluster of another version."""
    with transaction.atomic():
        of_others = crons.of_other_versions(declared=declared(), late=_LEFT).select_for_update(skip_locked=True)
        names = set(of_others.values_list("name", flat=True))
        crons.take_back([*(names & _declared.keys())])
        crons.retire([*(names - _declared.keys())])


def declared() -> list[str]:
    return list(_declared)


def fire_due() -> list[ScheduledFunction]:
    """Turn the fire times that have come into scheduled functions; those that were made.

    Any number of clusters may do this at once: a cron's row is locked, its fire time only moves forward, and one row
    for each (cron, fire time) is what the database allows. All in one transaction; a cron that cannot be fired is put
    aside in it, and keeps the others from nothing.
    """
    with transaction.atomic():
        made: list[ScheduledFunction] = []
        for row in crons.lock_due(_AT_ONCE, declared=declared()):
            made += _fire_or_pause(row.name, now=row.now)
        return made


def hasten(*names: str, within_s: float) -> None:
    """Let crons fire within so many seconds after the commit: something happened that they are for. Of an unknown or
    paused one nothing comes.

    So a cron that would find nothing to do need not fire often. A process asks for this once until that firing, which
    comes after all that was committed since. A call that is lost costs the wait until the cron's own fire time.
    """
    transaction.on_commit(lambda: _hasten(names, within_s), robust=True)


def pause(name: str) -> None:
    """Let a cron fire no more until it is resumed. Raises NotFound."""
    with transaction.atomic():
        cron = locked(name)
        if cron.paused_at is None:
            crons.change(name, paused_at=clock.now(), pause_reason=None)
        notifications.changed([], crons=[name])


def resume(name: str) -> None:
    """Let a cron fire again, from its next fire time on. Those of the pause were not missed. Raises NotFound,
    and BadSchedule or UnknownFunction for one that could not be fired."""
    with transaction.atomic():
        cron = locked(name)
        if cron.paused_at is not None:
            crons.change(name, paused_at=None, pause_reason=None, next_at=_next_after_pause(cron, now=clock.now()))
            notifications.due([registry.find(cron.function).kind])
        notifications.changed([], crons=[name])


def run_now(name: str) -> ScheduledFunction:
    """Fire a cron now, whatever its schedule, pause and overlap say. Raises NotFound, BadArguments."""
    with transaction.atomic():
        cron = locked(name)
        rows = insert([_firing(cron.function, arguments(cron), name=name, fire_at=clock.now())])
        notifications.changed([], crons=[name])
        return rows[0]


def upcoming(cron: Cron, *, count: int = 10) -> list[datetime]:
    """The next fire times, in the cron's own zone; none while it is paused or retired."""
    if cron.paused_at or cron.retired_at:
        return []
    try:
        schedule = schedules.parse(cron.schedule)
        moments = schedules.upcoming(schedule, first=cron.next_at, count=count)
        return [moment.astimezone(schedule.zone) for moment in moments]
    except (errors.BadSchedule, OverflowError):  # of a row written by hand the calendar may end before
        return []


def is_internal(cron: Cron) -> bool:
    """Whether it is a cron of the farm itself, and not of an added app or of a person."""
    return cron.source != Source.PERSON and registry.is_internal(cron.function)


def follow_code(name: str) -> Cron:
    """Let a cron be again what code declares. Raises NotFound, also for one that no code declares."""
    with transaction.atomic():
        cron, declared = locked(name), existing(_declared.get(name), errors.NotFound(resource="cron in code"))
        cron.source = Source.CODE
        _sync(declared, cron, now=clock.now())
        notifications.due([declared.function.kind])
        notifications.changed([], crons=[name])
        return locked(name)


def _hasten(names: Sequence[str], within_s: float) -> None:
    now = time.monotonic()
    due = [name for name in names if name in _declared and now >= _hastened_until.get((name, within_s), 0.0)]
    if due:
        # Before it is asked for: where a row is locked one caller waits, and not all.
        _hastened_until.update({(name, within_s): now + within_s for name in due})
        with guards.trusted():
            fires_in_s = crons.hasten(due, within_s=within_s)
        # What is committed after that firing, and it may come sooner, needs another. One that is late would be asked
        # for after every commit: where no cluster ran that was two thirds of a finish with a claim.
        until = {(name, within_s): now + max(seconds, _LATE_S) for name, seconds in fires_in_s.items()}
        _hastened_until.update(until)


def _sync(declared: Declared, row: Cron | None, *, now: datetime) -> None:
    columns = {"function": declared.function.name, **columns_of(declared.schedule, declared.args, declared.policy)}
    if row is None:
        crons.insert(declared.name, next_at=declared.schedule.first(now=now), **columns)
        return
    if row.source == Source.EDITED and row.function == columns["function"]:
        crons.change(declared.name, retired_at=None)
        return
    columns["source"] = Source.CODE
    if row.schedule != columns["schedule"] or row.retired_at is not None:
        first = declared.schedule.first(now=now)
        # Not before what was fired already, also when the clock has gone back since.
        columns["next_at"] = first and max(first, _readable(row.last_fire_at) or first)
    crons.change(declared.name, retired_at=None, **columns)


def columns_of(schedule: Interval | Calendar, args: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    of_policy = {"missed": policy.missed, "at_most": policy.at_most, "overlap": policy.overlap}
    return {"args": dict(args), "schedule": schedule.text(), **of_policy}


def _fire_or_pause(name: str, *, now: datetime) -> list[ScheduledFunction]:
    """Fire one cron. One that cannot be fired is paused, with the reason on it: it would be tried at every turn, and
    roll back the others. What the database cannot do now is no fault of the cron."""
    try:
        with transaction.atomic():  # a savepoint
            return _fire(Cron.objects.defer(None).get(pk=name), now=now)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:
        log.exception("The cron %r cannot be fired, and was paused", name)
        reason = f"It could not be fired: {endings.reason_of(error)}"
        crons.change(name, paused_at=now, pause_reason=reason[:LONGEST_REASON])
        with suppress(Refusal):  # what is wrong may be its name
            notifications.changed([], crons=[name])
        return []


def _fire(row: Cron, *, now: datetime) -> list[ScheduledFunction]:
    policy = Policy(missed=Missed(row.missed), at_most=row.at_most, overlap=Overlap(row.overlap))
    if (run_at := _readable(row.next_at)) is None:  # though it is due
        raise errors.BadSchedule(why="its next firing is at no moment that can be read")
    plan = schedules.decide(schedules.parse(row.schedule), run_at=run_at, now=now, policy=policy)
    wanted = [_firing(row.function, row.args, name=row.name, fire_at=moment) for moment in plan.fire]
    if policy.overlap is Overlap.SKIP and wanted:
        wanted = [] if _is_at_work(row) else wanted[-1:]
    made = insert(wanted) if wanted else []
    crons.change(
        row.name,
        next_at=plan.next_at,
        last_fire_at=plan.fire[-1] if plan.fire else F("last_fire_at"),
        missed_count=F("missed_count") + plan.missed,
        skipped_count=F("skipped_count") + len(plan.fire) - len(wanted),
        missed_at=Now() if schedules.has_missed(plan, now=now) else F("missed_at"),
    )
    notifications.changed([], crons=[row.name])
    return made


def _is_at_work(row: Cron) -> bool:
    """Whether an earlier firing has not ended, nor what it began."""
    firings = ScheduledFunction.objects.filter(cron_id=row.name)
    if firings.filter(status__in=sorted(LIVE)).exists():
        return True
    results = firings.filter(attempt=1).order_by("-fire_at").values_list("result", flat=True)
    offer = registry.offered(row.function)
    return offer is not None and offer.lives(list(results[:_LAST_FIRINGS]))


def _firing(function: str, args: dict[str, Any], *, name: str, fire_at: datetime) -> NewFunction:
    """A firing of a function that this process does not know is an action, which waits for who does."""
    columns: dict[str, Any] = {"function": function, "args": json.dumps(args), "cron": name, "fire_at": fire_at}
    try:
        registered = registry.find(function)
    except errors.BrokenFunction:
        raise
    except errors.UnknownFunction:
        return NewFunction(kind=Kind.ACTION, **columns)
    return NewFunction(kind=registered.kind, queue=registered.queue, priority=registered.priority, **columns)


def _next_after_pause(cron: Cron, *, now: datetime) -> datetime | None:
    schedule = schedules.parse(cron.schedule)
    if (at := _readable(cron.next_at)) is None or at > now:
        return at or schedule.first(now=now)
    [last] = schedule.latest(start=at, end=now, most=1)[1]
    return schedule.after(last)


def _readable(at: datetime | None) -> datetime | None:
    return None if at is None or is_beyond_python(at) else at


def locked(name: str) -> Cron:
    """The cron, locked in the caller's transaction. Raises NotFound."""
    return existing(crons.lock(name), errors.NotFound(resource="cron"))


def make(name: str, *, function: str, schedule: Interval | Calendar, args: Mapping[str, Any], policy: Policy) -> Cron:
    """A cron of a registered function that no code declares; one of that name which was removed begins anew.

    Raises BadSchedule for the name, CronExists, UnknownFunction, BadArguments, NotJson, and what the function's own
    check raises.
    """
    columns = _columns(function, schedule, args, policy)
    with transaction.atomic():
        row = crons.lock(checked_name(name))
        if row is not None and not (row.source == Source.PERSON and row.retired_at):
            raise errors.CronExists(name=name)
        columns |= {"function": function, "next_at": schedule.first(now=clock.now()), "source": Source.PERSON}
        if row is not None:
            crons.change(name, retired_at=None, paused_at=None, pause_reason=None, **columns)
        elif not crons.insert(name, **columns):
            raise errors.CronExists(name=name)
        return _announced(name)


def edit(name: str, *, schedule: Interval | Calendar, args: Mapping[str, Any], policy: Policy) -> Cron:
    """Change what a cron does from now on; what code says of it no longer counts until `follow_code`,
    if that is another thing.

    Another schedule counts from now. Raises NotFound, NotEditable for a cron of the farm itself, BadArguments,
    NotJson, and what the function's own check raises.
    """
    with transaction.atomic():
        row = locked(name)
        if not is_editable(row):
            raise errors.NotEditable(name=name)
        columns = _columns(row.function, schedule, args, policy)
        if columns["schedule"] != row.schedule:
            columns["next_at"] = schedule.after(clock.now())
        if row.source == Source.CODE and any(getattr(row, name) != value for name, value in columns.items()):
            columns["source"] = Source.EDITED
        crons.change(name, **columns)
        return _announced(name)


def remove(name: str) -> None:
    """Let a cron that a person made fire no more; its history stays. Raises NotFound, also for one of code."""
    with transaction.atomic():
        if locked(name).source != Source.PERSON:
            raise errors.NotFound(resource="cron made by a person")
        crons.retire([name])
        notifications.changed([], crons=[name])


def is_editable(cron: Cron) -> bool:
    """Whether people may change it: the farm's own keep it going."""
    return cron.retired_at is None and not is_internal(cron)


def _columns(function: str, schedule: Interval | Calendar, args: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    return columns_of(schedule, registry.check_for_people(function, args), policy)


def _announced(name: str) -> Cron:
    """Let clusters and pages know; the cron as it is now."""
    cron = locked(name)
    notifications.due([registry.find(cron.function).kind])
    notifications.changed([], crons=[name])
    return cron
