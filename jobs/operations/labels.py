"""Labels of workers and requirements of jobs: which worker satisfies which set is written down when a set is new and
when labels change, so that no claim has to find out (docs/adr/0085).

Both happen one after the other (`requirements.close`): a set never misses a worker's new labels, nor a worker a new
set.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from django.contrib.auth.models import User

from core import audit
from jobs.domain import labels
from jobs.domain.labels import Requirement, Values
from jobs.errors import InvalidValue
from jobs.models import Worker
from jobs.queries import requirements
from live import operations as live
from postgres import transactions
from scheduling.operations import action

FORGET_AFTER_S: Final = 86_400.0  # what no job of a day has is seldom asked for again
_FORGOTTEN_AT_ONCE: Final = 200


def ids_of(sets: Collection[Requirement]) -> dict[str, int]:
    """The id of each of these sets by its text, in the caller's transaction: new ones are stored, with who satisfies
    them. Raises InvalidValue where the farm knows `requirements.MOST` others."""
    known = requirements.known({one.text for one in sets})
    missing = {one.text: one for one in sets if one.text not in known}
    return known | _made(missing) if missing else known


def relabel(worker_id: int) -> None:
    """Note anew which sets this worker satisfies, after its labels changed, in that transaction.

    What it holds it keeps. One that waits for jobs looks again.
    """
    requirements.close()
    values = requirements.label_values([worker_id]).get(worker_id, {})
    satisfied = [pk for pk, one in requirements.everything().items() if _satisfies(one, values)]
    if requirements.set_satisfied(worker_id, sorted(satisfied)):
        live.touch(f"worker:{worker_id}", "workers", "jobs")


def preferring_loaded(model: str) -> dict[str, str] | None:
    """What a job prefers that is best done where this model is loaded; None where the name cannot be written as a
    condition."""
    try:
        labels.conditions({labels.LOADED: model}, field="prefers")
    except InvalidValue:
        return None
    return {labels.LOADED: model} if "|" not in model else None


@transactions.retried
def set_labels(worker: Worker, by_staff: Mapping[str, Any], *, by: User | None) -> None:
    """Give a worker labels that win over those it announces; an empty value takes one away, and {} leaves it to what it
    announces. Raises InvalidValue."""
    worker.labels = labels.checked_labels(by_staff, allows_empty=True)
    requirements.set_labels(worker.pk, worker.labels)
    relabel(worker.pk)
    named = ", ".join(f"{key}={value}" for key, value in worker.labels.items()) or "none"
    audit.record(by, worker, f"labels set: {named}")
    live.touch(f"worker:{worker.pk}", "workers")


@action(idempotent=True, own_writes=True)
def forget_requirements() -> int:
    """Delete sets that no job has, made a day ago or earlier, some hundred at a time; how many."""
    return _forget()


@transactions.retried
def _forget() -> int:
    unused = requirements.lock_unused(age_s=FORGET_AFTER_S, limit=_FORGOTTEN_AT_ONCE)
    return len(requirements.delete_unused(unused)) if unused else 0


def _made(missing: Mapping[str, Requirement]) -> dict[str, int]:
    requirements.close()
    bases = {text: Requirement(requires=one.requires, prefers={}) for text, one in missing.items()}
    bases = {text: base for text, base in bases.items() if base.requires and base.text != text}
    wanted = {base.text: base for base in bases.values()} | dict(missing)
    before = requirements.known(wanted)  # somebody else made some of them until the lock was free
    _check_room(len(wanted) - len(before))
    requirements.make([one for one in bases.values() if one.text not in before], bases={})
    known = requirements.known(wanted)
    own = {text: known[base.text] for text, base in bases.items()}
    requirements.make([one for text, one in missing.items() if text not in known], bases=own)
    ids = requirements.known(wanted)
    _note_who_satisfies({ids[text]: one for text, one in wanted.items() if text not in before})
    return ids


def _check_room(more: int) -> None:
    if more and requirements.count() + more > requirements.MOST:
        why = (
            f"jobs of this farm have {requirements.MOST:,} different requirements already, which is the most; "
            "use one of those, or wait until some of these jobs are deleted"
        )
        raise InvalidValue(field="requires", why=why)


def _note_who_satisfies(sets: Mapping[int, Requirement]) -> None:
    workers = requirements.label_values() if sets else {}
    for pk, one in sorted(sets.items()):
        satisfying = [worker for worker, values in workers.items() if _satisfies(one, values)]
        if satisfying:
            requirements.add_satisfied(pk, satisfying)
            live.touch(*(f"worker:{worker}" for worker in satisfying))


def _satisfies(one: Requirement, values: Values) -> bool:
    return labels.meets(one.requires, values) and labels.meets(one.prefers, values)
