"""Who hears of a change: the clusters that wait for work, and the pages that show it. Both after the commit."""

import logging
from collections.abc import Callable, Iterable
from contextlib import suppress

from django.db import InterfaceError, OperationalError, transaction

from core.refusal import Refusal
from live import operations as live
from postgres.transactions import Gathered
from scheduling import registry
from scheduling.domain.calls import Kind, Status
from scheduling.models import ScheduledFunction
from scheduling.queries import functions

log = logging.getLogger(__name__)

# Called with the cron, the function's id, and the error.
Observer = Callable[[str, int, str], None]
_observers: list[Observer] = []
_due = Gathered(functions.notify)


def due(kinds: Iterable[Kind | str]) -> None:
    """Wake the clusters that listen for these words (kinds) after the commit, each once for a transaction.

    Not inside the transaction: NOTIFY takes a lock of the whole server at the commit. A message that is lost costs
    nothing: clusters look by themselves too.
    """
    _due.add(map(str, kinds))


def changed(ids: Iterable[int], *, crons: Iterable[str] = ()) -> None:
    """What these functions and crons show is stale."""
    shown = [*(f"scheduled:{pk}" for pk in ids), *(f"cron:{name}" for name in crons)]
    live.touch("scheduled", *shown, *(["crons"] if crons else []))


def over(function_id: int, *, task_backend: str | None, raised: BaseException | None = None) -> None:
    """A function ended. If it came by another interface, that interface tells its own listeners, after the commit, and
    what it raised, if that is known here."""
    tasks = registry.interfaces.tasks
    if task_backend is not None and tasks is not None:
        transaction.on_commit(lambda: tasks.ended(function_id, raised), robust=True)


def ended(row: ScheduledFunction, *, raised: BaseException | None = None) -> None:
    """An action ended, as its row says: observers, its interface and pages hear of it."""
    if row.status != Status.SUCCESS:
        cron_failed(row.cron_id, function_id=row.pk, error=row.error)
    over(row.pk, task_backend=row.task_backend, raised=raised)
    with suppress(Refusal):  # in a row written by hand the name of its cron may be no topic
        changed([row.pk], crons=[row.cron_id] if row.cron_id else [])


def observe_cron_failures(observer: Observer) -> None:
    """Have `observer` called when a function that a cron had scheduled failed, or nobody knows how it ended, in the
    transaction that writes so; for apps above. A next try may follow."""
    _observers.append(observer)


def cron_failed(cron: str | None, *, function_id: int, error: str | None) -> None:
    """A function failed. None: no cron had scheduled it. An observer that raises is a line in the log: what ended has
    ended."""
    for observer in _observers if cron is not None else ():
        try:
            with transaction.atomic():  # a savepoint
                observer(str(cron), function_id, error or "")
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            log.exception("An observer of crons failed for function #%s", function_id)
