"""Attempts that end suspended: what the job waits for, and when it is due again (docs/adr/0131). And signals, also from
endpoints of the outbox at `signal:closed?key={{data.unique_key}}`: an event sends the signal `closed` to who waits for
it by that key. Placeholders stand for what the event has: `type`, `timestamp`, `data`."""

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import Any, Final

from django.contrib.auth.models import User
from django.db import transaction

from core import audit, templates
from jobs.domain import payloads
from jobs.domain.flows import DATA_BYTES, LONGEST_KEY, Wait, checked_id, checked_name, misfit, parsed_schema
from jobs.domain.records import BEHIND
from jobs.domain.states import ENDED, Status
from jobs.errors import InvalidValue, JobHasEnded, NotAChild, PayloadTooLarge
from jobs.models import Signal
from jobs.operations import edges, hooks
from jobs.operations.set_aside import ASIDE
from jobs.queries import flows, moves, reads, waits as queries
from outbox import operations as outbox
from postgres import transactions

SCHEME: Final = "signal"
_ROOTS: Final = ("type", "timestamp", "data")


def lock_keys(waits: Iterable[Wait]) -> None:
    """Before any job is locked: of those who begin to wait by a key and those who send for it, one after the other."""
    keys = sorted({(wait.signal or "", wait.signal_key) for wait in waits if wait.signal_key})
    with transactions.waiting_at_most(moves.LOCKED_MS) if keys else nullcontext():
        for name, signal_key in keys:
            queries.lock_key(name, signal_key)


def begin(job_id: int, wait: Wait) -> datetime | None:
    """Let a job, whose key (`lock_keys`) and row the caller has locked and settles, wait: when it is due again; None:
    at once.

    Raises NotAChild for a job that it has not submitted, PayloadTooLarge and InvalidJson for a schema; then it is as it
    was."""
    if wait.schema is not None:
        payloads.encoded(wait.schema, limit_bytes=DATA_BYTES, subject="schema")
    with transaction.atomic() if wait.children else nullcontext():
        queries.forget(job_id)
        if (wait.signal or wait.timeout_s) and queries.keep(job_id, wait):
            return None
        if wait.children:
            _come_after(job_id, list(dict.fromkeys(wait.children)))
    return BEHIND if wait.children or wait.signal else wait.until


@transactions.retried
def signal(job_id: int, name: str, data: Any = None, *, by: User | None, key: str | None = None) -> bool:
    """Send a job a signal, any JSON of at most 64 kB as `data`: it goes on if it waits for one of this name, else it is
    given it once it does, within 30 days. The same `key` again is the same signal; whether this one is new.

    `by` None is the site itself. Raises NotFound (also for a job that `by` may not see), NotAllowed, JobHasEnded,
    InvalidValue (also for data that the job's form could not send, while it waits for it), InvalidJson,
    PayloadTooLarge.
    """
    key = _checked(name, data, key)
    job = reads.operable(job_id, by=by, lock=True)
    if Status(job.status) in ENDED:
        if Signal.objects.filter(job_id=job.pk, key=key).exists():
            return False
        raise JobHasEnded
    stored, is_new = queries.store(job.pk, name=name, data=data, key=key)
    if is_new:
        if job.status == Status.PENDING and job.is_behind and _takes(job.pk, stored):
            _wake([job])
        audit.record(by, job, f"sent the signal {name}")
    return is_new


@transactions.retried
def signal_by_key(signal_key: str, name: str, data: Any = None, *, by: User | None, key: str | None = None) -> bool:
    """Send a signal to all jobs that wait for one of this name and `signal_key`, any JSON of at most 64 kB as `data`;
    of each owner of whose none does the first one that will, within 30 days, is given it. The same `key` again is the
    same signal; whether this one is new.

    It reaches the jobs of `by` alone; of everybody, if that runs the farm or is None, the site itself. They go on once
    the caller's transaction is committed. Raises InvalidValue, InvalidJson, PayloadTooLarge.
    """
    sender = None if by is None or reads.runs_farm(by) else by.pk
    return send_by_key(signal_key, name, data, sender_id=sender, key=key)


def send_by_key(signal_key: str, name: str, data: Any, *, sender_id: int | None, key: str | None = None) -> bool:
    """`signal_by_key` for the jobs of this person, or of everybody, in the caller's transaction."""
    key = _checked(name, data, key)
    checked_name(signal_key, field="signal_key", longest=LONGEST_KEY)
    stored, is_new = queries.store_keyed(signal_key, name=name, data=data, key=key, sender_id=sender_id)
    if is_new:
        transaction.on_commit(lambda: reach(stored.pk), robust=True)
    return is_new


def reach(signal: int) -> None:
    """Let go on who waits for a signal by its key, which is committed; what this does not come to, as in a crash, is
    the janitor's. A job that cannot go on is put aside, and the others do."""

    def give(rows: Sequence[Any]) -> None:
        _wake(queries.give(rows))
        queries.settle_keyed(signal)

    ASIDE.for_each(lambda limit, but_for: queries.lock_reached(signal, limit, but_for), give)


def time_out(rows: Sequence[Any]) -> None:
    """What these locked jobs wait for has not come in time: those that wait still are due."""
    queries.settle([row.id for row in rows if not row.waits])
    over = queries.time_out([row.id for row in rows if row.waits])
    _wake([row for row in rows if row.id in over])


def check_address(url: str) -> None:
    """Raise BadUrl for what names no signal, or no key."""
    name, key = _parts(url)
    try:
        checked_name(name)
        templates.check(key, _unknown_root)
    except InvalidValue as refusal:
        raise outbox.BadUrl(reason=refusal.why) from None
    except templates.BadTemplate as refusal:
        raise outbox.BadUrl(reason=refusal.reason) from None
    if not 1 <= len(key) <= LONGEST_KEY:
        raise outbox.BadUrl(reason=f"it is signal:NAME?key=KEY, with a key of at most {LONGEST_KEY} characters")


def take_event(url: str, event: Mapping[str, Any], *, message_id: str, owner: User | None) -> None:
    """Send the signal, with the event as its data, to the jobs of `owner` that wait for it; for an endpoint of the
    whole farm to those of the event's owner, and of what is nobody's to everybody's. Sent again it is the same one.
    Raises what `templates.render` and `signal_by_key` do: it is for nobody."""
    name, template = _parts(url)
    key = templates.as_text(templates.render(template, event, reason=_unknown_root, limit_bytes=DATA_BYTES))
    sender_id = None if owner is None else owner.pk
    if owner is None and (username := event["data"].get("owner")) is not None:  # 0, who has no jobs, if they are gone
        sender_id = User.objects.filter(username=username).values_list("pk", flat=True).first() or 0
    try:
        with transaction.atomic():
            send_by_key(key, name, dict(event), sender_id=sender_id, key=message_id)
    except PayloadTooLarge:
        data = {**event["data"], "result_omitted": f"it has more than {DATA_BYTES} bytes"}
        data.pop("result", None)
        send_by_key(key, name, {**event, "data": data}, sender_id=sender_id, key=message_id)


def _checked(name: str, data: Any, key: str | None) -> str:
    """What this signal is called. Raises InvalidValue, InvalidJson, PayloadTooLarge."""
    key = uuid.uuid4().hex if key is None else checked_id(key)
    checked_name(name)
    payloads.encoded(data, limit_bytes=DATA_BYTES, subject="data")
    return key


def _takes(job_id: int, signal: Signal) -> bool:
    """Whether the job waits for this one, and has it now. Raises InvalidValue which its form could not send: what
    came before the wait, or by a key, is given as it came, for nobody is there to be told."""
    wait = queries.waiting(job_id)
    if wait is not None and wait.signal == signal.name and (why := misfit(parsed_schema(wait.schema), signal.data)):
        raise InvalidValue(field="data", why=why)
    return queries.take(signal)


def _wake(jobs: Sequence[Any]) -> None:
    ids = [job.id for job in jobs]
    queries.wake(ids)
    if ids:
        hooks.changed(ids)
    hooks.available(*{job.queue for job in jobs})


def _come_after(job_id: int, children: Sequence[int]) -> None:
    reads.lock_living(children)
    row = flows.suspend(job_id, children)
    if not row.is_own:
        raise NotAChild(job=job_id)
    edges.look_after_commit([] if row.ended is None else [row.ended])


def _parts(url: str) -> tuple[str, str]:
    name, _, key = url.removeprefix(f"{SCHEME}:").partition("?key=")
    return name, key


def _unknown_root(path: str) -> str | None:
    if path.partition(".")[0] in _ROOTS:
        return None
    return f"{json.dumps(path)} is nothing of an event: it has {', '.join(_ROOTS)}"
