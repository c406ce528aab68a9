"""Labels of workers and requirements of jobs: which worker satisfies which set is written down when a set is new and
when labels change, so that no claim has to find out (docs/adr/0085).

Both happen one after the other (`requirements.close`): a set never misses a worker's new labels, nor a worker a new
set.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from django.contrib.auth.models import User

from core import audit
from jobs.domain import labels
from jobs.domain.labels import Requirement, Values
from jobs.domain.records import JobRecord
from jobs.errors import InvalidValue, TooManyRequirements
from jobs.models import Worker
from jobs.operations import quotas
from jobs.queries import reads, requirements
from live import operations as live
from postgres import transactions
from scheduling.operations import action

log = logging.getLogger(__name__)
_AT_ONCE: Final = 500  # sets that are retired, or deleted, in one statement
_RETRY_AFTER_S: Final = 60  # jobs end; nobody knows when


def interned(new: Sequence[JobRecord]) -> Sequence[JobRecord]:
    """These new jobs with the ids of the sets that they want."""
    wanted = {one.wanted.text: one.wanted for one in new if one.wanted}
    if not wanted:
        return new
    chosen = {(one.owner_id, one.wanted.text) for one in new if one.wanted and one.is_choice and one.owner_id}
    ids = ids_of(wanted.values(), chosen=chosen)
    return [one._replace(requirement_id=ids[one.wanted.text]) if one.wanted else one for one in new]


def ids_of(sets: Collection[Requirement], *, chosen: Collection[tuple[int, str]] = ()) -> dict[str, int]:
    """The id of each of these sets by its text, in the caller's transaction: new ones are stored, with who satisfies
    them.

    `chosen`: (owner, text) of those that are not their kinds' own. Raises TooManyRequirements for one of them where its
    owner's living jobs, or those of all, have as many different sets as they may; never for an operator's. Kinds' own
    and operators' are bounded by who runs the farm.
    """
    known = requirements.known({one.text for one in sets})
    missing = {one.text: one for one in sets if one.text not in known}
    choosers = {owner_id for owner_id, text in chosen if text in missing}
    ids = known | _made(missing, choosers) if missing else known
    _check_owners(chosen, ids)
    return ids


def relabel(worker_id: int) -> None:
    """Note anew which sets this worker satisfies, after its labels changed, in that transaction.

    What it holds it keeps. One that waits for jobs looks again.
    """
    requirements.close()
    values = requirements.label_values([worker_id]).get(worker_id, {})
    satisfied = [pk for pk, one in requirements.everything().items() if _satisfies(pk, one, values)]
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
    """Retire sets that no living job has; how many. Claims look at them no more, `delete_retired` deletes them with
    their last job."""
    return _retire_alone() if requirements.unused().exists() else 0


@transactions.retried
def _retire_alone() -> int:
    requirements.close()
    return _retire_unused()


def _retire_unused() -> int:
    """In a transaction that has closed the table. The base of a set goes a round after it."""
    retired = 0
    while unused := requirements.lock_unused(limit=_AT_ONCE):
        if not (more := requirements.retire(unused)):
            break
        retired += more
    return retired


def _made(missing: Mapping[str, Requirement], choosers: Collection[int]) -> dict[str, int]:
    requirements.close()
    bases = {text: Requirement(requires=one.requires, prefers={}) for text, one in missing.items()}
    bases = {text: base for text, base in bases.items() if base.requires and base.text != text}
    wanted = {base.text: base for base in bases.values()} | dict(missing)
    before = requirements.known(wanted)  # somebody else made some of them until the lock was free
    _check_room(len(wanted) - len(before), choosers)
    requirements.make([one for one in bases.values() if one.text not in before], bases={})
    known = requirements.known(wanted)
    own = {text: known[base.text] for text, base in bases.items()}
    requirements.make([one for text, one in missing.items() if text not in known], bases=own)
    ids = requirements.known(wanted)
    _note_who_satisfies({ids[text]: one for text, one in wanted.items() if text not in before})
    return ids


def _check_room(more: int, choosers: Collection[int]) -> None:
    most = quotas.bound("REQUIREMENTS_IN_ALL")
    if most is None or requirements.count() + more <= most:
        return
    _retire_unused()
    used = requirements.count()
    if used + more > most and not all(map(_operates, choosers)):
        raise TooManyRequirements(of="farm", quota=most, used=used, more=more, retry_after=_RETRY_AFTER_S)


def _check_owners(chosen: Collection[tuple[int, str]], ids: Mapping[str, int]) -> None:
    if (most := quotas.bound("REQUIREMENTS_PER_OWNER")) is None:
        return
    for owner_id in {owner_id for owner_id, _ in chosen}:
        wanted = {ids[text] for owner, text in chosen if owner == owner_id}
        more = len(wanted - requirements.held(owner_id, wanted))
        used = len(requirements.held(owner_id)) if more else 0
        if more and used + more > most and not _operates(owner_id):
            raise TooManyRequirements(of="owner", quota=most, used=used, more=more, retry_after=_RETRY_AFTER_S)


def _operates(owner_id: int) -> bool:
    person = User.objects.filter(pk=owner_id).first()
    return person is not None and reads.is_operator(person)


def _note_who_satisfies(sets: Mapping[int, Requirement]) -> None:
    workers = requirements.label_values() if sets else {}
    for pk, one in sorted(sets.items()):
        satisfying = [worker for worker, values in workers.items() if _satisfies(pk, one, values)]
        if satisfying:
            requirements.add_satisfied(pk, satisfying)
            live.touch(*(f"worker:{worker}" for worker in satisfying))


def _satisfies(pk: int, one: Requirement, values: Values) -> bool:
    """Nobody satisfies a set that was written by hand so that it cannot be judged; the others are all the same."""
    try:
        return labels.meets(one.requires, values) and labels.meets(one.prefers, values)
    except (ArithmeticError, AttributeError, TypeError):
        log.exception("The set %d of conditions cannot be judged", pk)
        return False
