"""Statements about what suspended jobs wait for beside other jobs. The caller has locked the job's live row."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from django.db import connection
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from jobs.domain.flows import Wait
from jobs.domain.records import BEHIND
from jobs.models import Edge, Job, Live, Signal, Suspension
from postgres import statements

NEW_AT_ONCE: Final = 1000
_LOCKS: Final = 1_784_635_258  # the class of the advisory locks of keys


def forget(job_id: int) -> None:
    """What the job was suspended for before counts no more."""
    Suspension.objects.filter(pk=job_id).delete()


def keep(job_id: int, wait: Wait) -> bool:
    """Write down what it waits for; whether that is a signal which has come already, and is taken."""
    own = Signal.objects.filter(job_id=job_id, name=wait.signal, taken_at=None).order_by("pk")
    kept = own.first() or _untaken_keyed(job_id, wait) if wait.signal else None
    schema = None if wait.schema is None else json.dumps(wait.schema)
    until = None if wait.timeout_s is None or kept else Now() + timedelta(seconds=wait.timeout_s)
    named = {"signal": wait.signal or "", "signal_key": wait.signal_key or ""}
    Suspension.objects.create(job_id=job_id, **named, schema=schema, until=until, taken=kept)
    if kept is not None:
        Signal.objects.filter(pk=kept.pk).update(taken_at=Now())
    return kept is not None


def store(job_id: int, *, name: str, data: Any, key: str) -> tuple[Signal, bool]:
    """Keep a signal; the one with this key, and whether it is new."""
    return Signal.objects.get_or_create(job_id=job_id, key=key, defaults={"name": name, "data": data})


def store_keyed(signal_key: str, *, name: str, data: Any, key: str, sender_id: int | None) -> tuple[Signal, bool]:
    """Keep a signal for who waits for this key; the one with this `key` of its sender's, and whether it is new."""
    named = {"job": None, "signal_key": signal_key, "name": name, "key": key, "sender_id": sender_id}
    return Signal.objects.get_or_create(**named, defaults={"data": data, "is_new": True})


def new_signals() -> list[int]:
    """Signals by a key of which nobody has looked who waits for them."""
    return list(Signal.objects.filter(is_new=True).order_by("pk").values_list("pk", flat=True)[:NEW_AT_ONCE])


def lock_reached(signal: int, limit: int, but_for: Sequence[int] = ()) -> list[statements.Row]:
    """Lock jobs that wait for this new signal, except these ids: rows of `id`, `kind`, `queue`, `owner_id`, and of the
    signal its `signal_id`, `name`, `signal_key` and `data`."""
    for name, signal_key in Signal.objects.filter(pk=signal).values_list("name", "signal_key"):
        lock_key(name, signal_key)
    params = {"signal": signal, "limit": limit, "but_for": list(but_for), "behind": BEHIND}
    return statements.load("jobs", "lock_reached").run(params)


def give(rows: Sequence[Any]) -> list[Any]:
    """Let these locked jobs take copies of the signal that they wait for by its key; those that did. What one waits for
    is asked once more: it may have begun another wait while its lock was waited for."""
    waiting = Suspension.objects.filter(pk__in=[row.id for row in rows], taken=None, timed_out=False)
    waits = {(wait.pk, wait.signal, wait.signal_key): wait for wait in waiting}
    takers = [row for row in rows if (row.id, row.name, row.signal_key) in waits]
    copies = Signal.objects.bulk_create([_copy(row.id, row, of=row.signal_id, owner_id=row.owner_id) for row in takers])
    over = [waits[row.id, row.name, row.signal_key] for row in takers]
    for wait, copy in zip(over, copies, strict=True):
        wait.taken_id, wait.until = copy.pk, None
    Suspension.objects.bulk_update(over, ["taken", "until"])
    return takers


def settle_keyed(signal: int) -> None:
    """Somebody has looked who waits for this signal, unless one of those that are put aside does. The transaction is
    that of `lock_reached`, so that nobody begins to wait in between."""
    if not lock_reached(signal, 1):
        Signal.objects.filter(pk=signal).update(is_new=False)


def take(signal: Signal) -> bool:
    """Let the job have it, if it waits for one of its name; whether it does."""
    waiting = Suspension.objects.filter(pk=signal.job_id, signal=signal.name, taken=None, timed_out=False)
    if taken := waiting.update(taken=signal.pk, until=None):
        Signal.objects.filter(pk=signal.pk).update(taken_at=Now())
    return bool(taken)


def wake(job_ids: Sequence[int]) -> None:
    """Let these jobs, which wait, be due now."""
    Live.objects.filter(pk__in=job_ids, lease_secret=None).update(run_at=Now())


def lock_timed_out(limit: int, but_for: Sequence[int] = ()) -> list[statements.Row]:
    """Lock jobs whose wait has run out, except these ids: rows of `id`, `kind`, `queue` and `waits`."""
    params = {"limit": limit, "but_for": list(but_for), "behind": BEHIND}
    return statements.load("jobs", "lock_timed_out").run(params)


def time_out(job_ids: Sequence[int]) -> set[int]:
    """Let those of these locked jobs whose time is over wait for nothing more, neither for a signal nor for jobs: which
    they are. One may have begun another wait while it was found."""
    over = set(Suspension.objects.filter(pk__in=job_ids, until__lte=Now()).values_list("pk", flat=True))
    Edge.objects.filter(open_of__in=over).update(open_of=None)
    Suspension.objects.filter(pk__in=over).update(until=None, timed_out=True)
    return over


def settle(job_ids: Sequence[int]) -> None:
    """These do not wait any more: their time does not run out."""
    Suspension.objects.filter(pk__in=job_ids).update(until=None)


def of(job_ids: Sequence[int]) -> dict[int, Suspension]:
    """What each of these jobs was suspended for, with what came. Of no jobs nothing is read."""
    return Suspension.objects.select_related("taken").in_bulk(job_ids) if job_ids else {}


def waiting(job_id: int) -> Suspension | None:
    """The signal that a suspended job waits for."""
    return Suspension.objects.filter(pk=job_id, taken=None, timed_out=False).exclude(signal="").first()


def _untaken_keyed(job_id: int, wait: Wait) -> Signal | None:
    """The job's own copy of a signal that came for the key that it waits for before anybody did. The key is locked."""
    if wait.signal_key is None or wait.signal is None:
        return None
    owner_id = Job.objects.values_list("owner_id", flat=True).get(pk=job_id)
    had = Signal.objects.filter(of_id=OuterRef("pk"), sender_id=owner_id)
    of_key = Signal.objects.filter(job=None, signal_key=wait.signal_key, name=wait.signal, is_new=False)
    for_me = of_key.filter(Q(sender_id=None) | Q(sender_id=owner_id)).exclude(Exists(had))
    if (kept := for_me.order_by("pk").first()) is None:
        return None
    copy = _copy(job_id, kept, of=kept.pk, owner_id=owner_id)
    copy.save()
    return copy


def _copy(job_id: int, signal: Any, *, of: int, owner_id: int | None) -> Signal:
    """Its key is one that nobody sends: it has a space."""
    return Signal(
        job_id=job_id, name=signal.name, key=f"of {of}", data=signal.data, of_id=of, sender_id=owner_id, taken_at=Now()
    )


def lock_key(name: str, signal_key: str) -> None:
    """Of those who send for a key and those who begin to wait for it one goes after the other: a second statement sees
    what the first one committed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", [_LOCKS, f"{name} {signal_key}"])
