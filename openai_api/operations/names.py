"""Names of models: which may be called, by which models they are answered, and where calls go that have waited."""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import prefetch_related_objects
from django.db.models.functions import Now

from core.recent import Recent
from jobs import operations as jobs
from openai_api.domain import Call
from openai_api.errors import InvalidCall, UnknownModel
from openai_api.models import Alias, CallRule, Fallback
from openai_api.operations import call_hooks
from postgres import clock, transactions
from scheduling.operations import in_batches, is_away

if TYPE_CHECKING:
    from jobs.models import Job

log = logging.getLogger(__name__)
FRESH_S: Final = 5.0  # within which what staff change counts in every process
LOOK_AGAIN: Final = timedelta(seconds=10)  # for a call that a worker has, or none of whose other models is offered
AT_ONCE: Final = 200
UNITS: Final = ("requests", "tokens")
_LISTED: Final = 50  # models in the sentence of a refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class CallableName:
    """A model or an alias that may be called. `steps` are the models that answer it, the first one at once, each other
    after so many seconds; `workers` offer the first, as `jobs.OfferedModel` has them: none while they start anew."""

    since: datetime
    workers: Mapping[int, jobs.Offering]
    steps: Sequence[Alias]
    is_alias: bool = True

    @property
    def model(self) -> str:
        return str(self.steps[0].model)

    @property
    def is_loaded(self) -> bool:
        """Whether one of them has it in memory."""
        return any(each.is_loaded for each in self.workers.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What staff decided: the models of each alias, those that are called by aliases alone, and what whose tokens may
    call."""

    aliases: Mapping[str, Sequence[Alias]]
    hidden: frozenset[str]
    of_tokens: Mapping[int | None, CallRule]
    of_groups: Mapping[int | None, CallRule]

    def of(self, user: User, token_id: int | None) -> tuple[CallRule | None, Sequence[CallRule]]:
        """The rule of this token, and those of its person's groups."""
        own = None if token_id is None else self.of_tokens.get(token_id)
        if not self.of_groups.keys() - {None}:
            return own, ()
        prefetch_related_objects([user], "groups")  # once for all of a call that asks
        return own, [self.of_groups[group.pk] for group in user.groups.all() if group.pk in self.of_groups]


_recent: Final[Recent[Rules]] = Recent(for_s=FRESH_S)


def forget() -> None:
    """Read anew what staff decided."""
    _recent.clear()


def rules() -> Rules:
    """What staff decided, as this process read it some seconds ago."""
    if (known := _recent.get("")) is None:
        aliases: dict[str, list[Alias]] = defaultdict(list)
        for row in Alias.objects.order_by("name", "after_s"):
            aliases[row.name].append(row)
        hidden = frozenset(row.model for steps in aliases.values() for row in steps if row.is_only_way)
        rows = list(CallRule.objects.all())
        of_tokens, of_groups = ({getattr(row, one): row for row in rows} for one in ("token_id", "group_id"))
        known = Rules(aliases=aliases, hidden=hidden, of_tokens=of_tokens, of_groups=of_groups)
        _recent.keep("", known)
    return known


def names(user: User, *, token_id: int | None, only: str | None = None) -> dict[str, CallableName]:
    """What this person may call with this token now, in order. Of models whose workers are starting anew, too. `only`
    this name, and the models behind it, are looked for where it is given."""
    known = rules()
    aliases = known.aliases if only is None else {only: known.aliases.get(only, ())}
    offered = _offered(user, None if only is None else [only, *(step.model for step in aliases[only])])
    callables = {
        name: _callable([Alias(name=name, model=name)], offered, is_alias=False)
        for name in offered if name not in known.hidden
    }  # fmt: skip
    for name, steps in aliases.items():
        if there := [place for place, step in enumerate(steps) if step.model in offered]:
            callables[name] = _callable(steps[there[0] :], offered)
    own, of_groups = known.of(user, token_id)
    allowed = [own.names if own else [], [name for rule in of_groups for name in rule.names]]
    return {name: callables[name] for name in sorted(callables) if all(name in some for some in allowed if some)}


def find(name: str, *, user: User, token_id: int | None) -> CallableName:
    """What answers calls of this name. Raises UnknownModel."""
    # The database is asked for no text that it cannot hold: a form may have a NUL in it.
    known = names(user, token_id=token_id, only=name if name.isprintable() else None)
    if name not in known:
        listed = ", ".join([*names(user, token_id=token_id)][:_LISTED]) or "none"
        raise UnknownModel(model=name, offered=listed, param="model")
    return known[name]


def per_minute(user: User, token_id: int | None) -> dict[str, int]:
    """How many requests and tokens this token may ask for in a minute, where a rule says so: its own, else the most
    generous one of its person's groups."""
    own, of_groups = rules().of(user, token_id)
    bounds = {}
    for unit in UNITS if token_id is not None else ():
        column = f"{unit}_per_minute"
        of_group = max((getattr(rule, column) or 0 for rule in of_groups), default=0)
        bounds[unit] = (own and getattr(own, column)) or of_group
    return {unit: most for unit, most in bounds.items() if most}


def check_job(payload: Any, queue: str, by: User, token_id: int | None) -> None:
    """Refuse a job that makes a call past the rules of this person or token. Raises InvalidCall."""
    known, call = rules(), payload if isinstance(payload, dict) else {}
    model = call["body"].get("model") if isinstance(call.get("body"), dict) else None
    is_bound = any(known.of(by, token_id)) or bool(call.get("alias") or call.get("models"))
    is_hidden = model in known.hidden or queue in map(jobs.queue_of_model, known.hidden)
    is_hooked = call_hooks.is_hooked(str(call.get("path")))
    if (is_bound or is_hidden or is_hooked) and not jobs.sees_all(by):
        raise InvalidCall(param="kind", why="aliases, rules of calls or hooks hold for this one: make it by /v1")


def answered_by(call: Call, target: CallableName) -> Call:
    """This call for the first model of its name. Which others may answer it stands in its payload, by their queues: the
    queue of the job says which of them does."""
    if not target.is_alias:
        return call
    named: dict[str, Any] = {"alias": call.model, "model": target.model, "body": {**call.body, "model": target.model}}
    if len(target.steps) > 1:
        named["models"] = {jobs.queue_of_model(step.model): step.model for step in target.steps}
    return replace(call, **named, later=[(step.model, step.after_s) for step in target.steps[1:]])


def note(calls: Iterable[tuple[int, Call]], *, since: datetime) -> None:
    """Have these jobs with their calls, which wait since then, go to the next model of their alias in time."""
    Fallback.objects.bulk_create(
        Fallback(job_id=job_id, steps=[*call.later], due_at=since + timedelta(seconds=call.later[0][1]))
        for job_id, call in calls if call.later
    )  # fmt: skip


def fall_back() -> None:
    """Move the calls that have waited for long enough to the next model that is offered. For the janitor. One that
    cannot be moved is put off, with a line in the log."""
    rows: list[Fallback] = []

    def put_off(error: Exception) -> None:
        log.error("the call of job %d cannot fall back", rows[0].pk, exc_info=error)
        Fallback.objects.filter(pk=rows[0].pk).update(due_at=Now() + 6 * LOOK_AGAIN)

    in_batches(
        lambda limit: _fall_back(limit, rows), put_off, size=AT_ONCE,
        is_of_all=lambda error: not rows or is_away(error) or transactions.is_passing(error),
    )  # fmt: skip


@transactions.retried
def _fall_back(limit: int, rows: list[Fallback]) -> int:
    """Some of them, in one transaction: how many were looked at. A job that a worker has stays with it."""
    due = Fallback.objects.select_for_update(skip_locked=True).filter(due_at__lte=Now()).order_by("due_at", "pk")
    rows[:] = due[:limit]
    if not rows:
        return 0
    now, ids = clock.now(), [row.job_id for row in rows]
    waiting = {job.pk: job for job in jobs.lock_waiting(ids)}
    living = {job_id for job_id, status in jobs.statuses(ids).items() if status in {"pending", "in_progress"}}
    offered = cache(_offered)
    moves: dict[str, list[Job]] = defaultdict(list)
    for row in rows:
        row.due_at = now + LOOK_AGAIN
        if (job := waiting.get(row.job_id)) is not None and (model := _next(row, job, offered(job.owner), now=now)):
            moves[model].append(job)
    for model, moved in sorted(moves.items()):
        jobs.reroute(moved, queue=jobs.queue_of_model(model))
    kept = [row for row in rows if row.steps and row.job_id in living]
    Fallback.objects.bulk_update(kept, ["due_at", "steps"])
    Fallback.objects.filter(pk__in={*ids} - {row.job_id for row in kept}).delete()
    return len(rows)


def _next(row: Fallback, job: "Job", offered: Mapping[str, jobs.OfferedModel], *, now: datetime) -> str | None:
    """The model that this waiting job goes to now, if any; and when it is to be looked at again."""
    due = [job.run_at + timedelta(seconds=after_s) for _, after_s in row.steps]
    if due[0] > now:  # it waits for something else, or was tried
        row.due_at = due[0]
        return None
    fit = (
        place for place, (model, _) in enumerate(row.steps)
        if due[place] <= now and model in offered and offered[model].workers
    )  # fmt: skip
    if (place := next(fit, None)) is None:
        return None
    model, row.steps = row.steps[place][0], row.steps[place + 1 :]
    row.due_at = due[place + 1] if row.steps else now
    return str(model)


def _callable(
    steps: Sequence[Alias], offered: Mapping[str, jobs.OfferedModel], *, is_alias: bool = True
) -> CallableName:
    since, workers = offered[steps[0].model]
    return CallableName(since=since, workers=workers, steps=steps, is_alias=is_alias)


def _offered(user: User | None, models: Collection[str] | None = None) -> Mapping[str, jobs.OfferedModel]:
    away_s: float = settings.OPENAI["RESTART_GRACE"]
    return {} if user is None else jobs.offered_models(user, away_s=away_s, models=models)
