"""Crons that people make, and those of code that they change (docs/adr/0016)."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from postgres import clock
from scheduling import registry
from scheduling.domain.schedules import Calendar, Interval, Policy, Source
from scheduling.errors import CronExists, NotEditable, NotFound
from scheduling.models import Cron
from scheduling.operations import notifications
from scheduling.operations.crons import checked_name, columns_of, is_internal, locked
from scheduling.queries import crons


def make(name: str, *, function: str, schedule: Interval | Calendar, args: Mapping[str, Any], policy: Policy) -> Cron:
    """A cron of a registered function that no code declares; one of that name which was removed begins anew.

    Raises BadSchedule for the name, CronExists, UnknownFunction, BadArguments, NotJson, and what the function's own
    check raises.
    """
    columns = _columns(function, schedule, args, policy)
    with transaction.atomic():
        row = crons.lock(checked_name(name))
        if row is not None and not (row.source == Source.PERSON and row.retired_at):
            raise CronExists(name=name)
        columns |= {"function": function, "next_at": schedule.first(now=clock.now()), "source": Source.PERSON}
        if row is None:
            crons.insert(name, **columns)
        else:
            crons.change(name, retired_at=None, paused_at=None, pause_reason=None, **columns)
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
            raise NotEditable(name=name)
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
            raise NotFound(resource="cron made by a person")
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
