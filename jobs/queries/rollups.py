"""Statements of the roll-up and the health scores, what the charts read, and ids by the time of submission or end."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import Any, Final, Literal

from django.contrib.auth.models import User
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Count, F, Min, QuerySet, Sum
from django.db.models.functions import Now

from jobs.domain import charts, rollups
from jobs.domain.records import MOST_TAGGED
from jobs.domain.rollups import History, Part, Period, Point
from jobs.models import Attempt, HealthScore, Job, Live, Outcome, Queue, Rollup, RollupWatermark, Tag
from postgres import clock, statements

# How far the order of ids may differ from that of the times of submission: a statement takes its time when it begins
# and its ids while it runs, and a bulk of many jobs may run for some seconds.
_DISORDER: Final = timedelta(minutes=1)
JOBS: Final = ("jobs_job", "created_at")
ATTEMPTS: Final = ("jobs_attempt", "ended_at")
MOST_KINDS: Final = 50  # in a history
MOST_GROUPS: Final = 20  # owners or tags, the others are one
_OUTCOMES = ("success", "failed", "canceled", "timed_out")
_Key = tuple[datetime, str, str]  # the beginning of a step, queue and kind
_Numbers = dict[str, Any]  # of a row of Rollup
Group = Literal["tag", "owner"]
# Which jobs rollup_minutes.sql counts: all, or some that are looked up by their ids, whatever the planner believes, and
# that count as of the kind that `label` says.
_ALL: Final = {"chosen": "", "outcomes": "jobs_outcome", "jobs": "jobs_job"}
_CHOSEN: Final = {
    "chosen": "chosen AS MATERIALIZED (SELECT one.id, one.queue, one.created_at, label.kind "
    "FROM ({ids} DESC LIMIT %(most)s::bigint) AS each CROSS JOIN LATERAL (SELECT * FROM jobs_job AS one "
    "WHERE one.id = each.job_id OFFSET 0) AS one CROSS JOIN LATERAL ({label}) AS label (kind){where}), ",
    "outcomes": "(SELECT one.*, chosen.kind FROM chosen CROSS JOIN LATERAL (SELECT job_id, queue, status, run_at, "
    "claimed_at, ended_at, fence FROM jobs_outcome AS one WHERE one.job_id = chosen.id OFFSET 0) AS one)",
    "jobs": "chosen",
}
_IDS: Final = {
    "all": "SELECT id AS job_id FROM jobs_job ORDER BY id",
    "tag": "SELECT job_id FROM jobs_tag WHERE tag = %(tag)s::text ORDER BY job_id",
    "owner": "SELECT id AS job_id FROM jobs_job WHERE owner_id = %(owner)s::integer ORDER BY id",
}
_LABELS: Final = {
    "": "SELECT one.kind",
    "owner": "SELECT coalesce(one.owner_id, 0)::text",
    "tag": "SELECT DISTINCT unnest(one.tags)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """The database's now, and before which moment nothing can become visible any more."""

    now: datetime
    horizon: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Jobs that are counted when somebody looks: the newest MOST_TAGGED of a person, of a tag, of both or of all."""

    owner: int | None = None
    tag: str = ""

    @property
    def index(self) -> str:
        """What leads to them."""
        return "owner" if self.owner is not None else "tag" if self.tag else "all"

    def since(self) -> datetime | None:
        """When the oldest of those that are looked at was submitted; None where that is all of them."""
        last = slice(MOST_TAGGED - 1, MOST_TAGGED)
        if self.index == "tag":
            oldest = list(Tag.objects.filter(tag=self.tag).order_by("-job_id").values_list("job_id", flat=True)[last])
        else:
            jobs = Job.objects.all() if self.owner is None else Job.objects.filter(owner=self.owner)
            oldest = list(jobs.order_by("-pk").values_list("pk", flat=True)[last])
        return Job.objects.filter(pk__in=oldest).values_list("created_at", flat=True).first()


def moments() -> Moments:
    """What `Moments` says, by one statement; see its caption for why it has to be one of its own."""
    [row] = statements.load("jobs", "rollup_horizon").run()
    return Moments(**row._asdict())


def lock_watermark(*, beginning: Callable[[], datetime]) -> RollupWatermark:
    """How far the roll-up is, locked until the transaction ends; made at the first call, settled until `beginning`."""
    watermarks = RollupWatermark.objects.select_for_update()
    if (watermark := watermarks.first()) is None:
        settled_until = beginning()
        made = RollupWatermark(settled_until=settled_until, counted_at=settled_until)
        RollupWatermark.objects.bulk_create([made], ignore_conflicts=True)
        watermark = watermarks.get()
    return watermark


def first_event(*, since: datetime) -> datetime | None:
    """When the first of the jobs that are there came, or the first attempt ended, at this moment or later; None if
    nothing did. Reads all that came since."""
    came = Job.objects.filter(pk__gte=first_since(since), created_at__gte=since).aggregate(at=Min("created_at"))
    ended = Outcome.objects.filter(ended_at__gte=since).aggregate(at=Min("ended_at"))
    attempts = Attempt.objects.filter(pk__gte=first_since(since, of=ATTEMPTS), ended_at__gte=since)
    moments = (came["at"], ended["at"], attempts.aggregate(at=Min("ended_at"))["at"])
    return min(filter(None, moments), default=None)


def last_counted_at() -> tuple[datetime | None, datetime]:
    """When the roll-up last counted (None if it never did), and the database's now."""
    counted = RollupWatermark.objects.values_list("counted_at", Now()).first()
    return counted or (None, clock.now())


def is_behind(counted_at: datetime, *, until: datetime) -> bool:
    """Whether a job came, or an attempt ended, after the last count and until a moment. Where nothing did, there is
    nothing to count."""
    if counted_at >= until:
        return False
    submitted = Job.objects.filter(pk__gte=first_since(counted_at), created_at__gt=counted_at, created_at__lte=until)
    attempts = Attempt.objects.filter(pk__gte=first_since(counted_at, of=ATTEMPTS))
    return submitted.exists() or attempts.filter(ended_at__gt=counted_at, ended_at__lte=until).exists()


def count_minutes(*, since: datetime, until: datetime) -> int:
    """Count whole minutes anew, and what is added up from them; how many rows of minutes changed. Whatever was counted
    of them before is replaced, so it does not matter how often, or how far, an earlier count came."""
    period = {"since": since, "until": until}
    changed = _replace(_counted(rollups.MINUTE_S, since=since, until=until), step_s=rollups.MINUTE_S, **period)
    if changed:
        for part_s, step_s in ((rollups.MINUTE_S, rollups.TEN_MINUTES_S), (rollups.TEN_MINUTES_S, rollups.HOUR_S)):
            _add_up(part_s, step_s, **period)
    return changed


def first_since(moment: datetime, *, of: tuple[str, str] = JOBS) -> int:
    """An id below which no job was submitted at this moment or later; at most a minute's worth of ids too low."""
    return statements.first_id_since(*of, moment - _DISORDER)


def end_before(moment: datetime, *, of: tuple[str, str] = JOBS) -> int:
    """An id from which on every job was submitted at this moment or later; at most a minute's worth too high."""
    return statements.first_id_since(*of, moment + _DISORDER)


def history(
    period: Period,
    *,
    now: datetime,
    queue: str = "",
    chosen: Chosen | None = None,
    known: tuple[datetime, datetime] | None = None,
) -> History:
    """What happened in the period that ends now, in one queue or in all of them, or to chosen jobs. `known`: from when
    to when what happened was counted; steps beyond it without a number are not counted (None: all are)."""
    steps = list(_steps(period, now=now))
    read = (_rows if chosen is None else partial(_rows_of, chosen))(period, since=steps[0], until=now)
    rows = [row for row in read if queue in ("", row.queue)]
    times: dict[datetime, list[Rollup]] = {at: [] for at in steps}
    for row in rows:
        times[row.at].append(row)
    since, until = known or (steps[0], now)
    since = min(since, rows[0].at) if rows else since  # a farm that was restored is older than its tables
    length = timedelta(seconds=period.step_s)
    kinds = sorted(_parts([row for row in rows if row.kind], steps, of="kind"), key=_most_first)[:MOST_KINDS]
    return History(
        points=tuple(
            _together(at, entries, is_counted=bool(entries) or (at + length > since and at <= until))
            for at, entries in times.items()
        ),
        queues=tuple(_parts(rows, steps, of="queue")),
        kinds=tuple(sorted(kinds, key=lambda part: part.name)),
        total=_together(steps[0], rows),
    )


def groups_for(*, everybody: bool) -> Sequence[Group]:
    """What the charts of all jobs, or of a person's own, can be grouped by besides queue and kind."""
    return ("tag", "owner") if everybody else ("tag",)


def groups(period: Period, *, now: datetime, chosen: Chosen, by: Group) -> list[Part]:
    """What happened in the period that ends now to chosen jobs, by their owner's name or by each of their tags: those
    MOST_GROUPS that most happened to, then all others together."""
    steps = list(_steps(period, now=now))
    rows = _rows_of(chosen, period, since=steps[0], until=now, by=by)
    ranked = sorted(_parts(rows, steps, of="kind"), key=_most_first)
    rest = {part.name for part in ranked[MOST_GROUPS:]}
    others = _part("", [row for row in rows if row.kind in rest], steps)
    shown = ranked[:MOST_GROUPS] if by == "tag" else _with_usernames(ranked[:MOST_GROUPS])
    return shown + ([replace(others, others=len(rest))] if rest else [])


def _with_usernames(parts: Sequence[Part]) -> list[Part]:
    people = User.objects.filter(pk__in=[int(part.name) for part in parts])
    names = {str(pk): name for pk, name in people.values_list("pk", "username")}
    return [replace(part, name=names.get(part.name, "nobody")) for part in parts]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How many jobs of one queue or kind ended and were not canceled, and how many of those failed or timed out."""

    name: str
    judged: int
    failed: int


def ended(period: Period, *, now: datetime, of: Literal["queue", "kind"]) -> list[Ended]:
    """What ended in each queue, or of each kind, in the period that ends now; added up by the database."""
    rows = Rollup.objects.filter(step_s=period.step_s, at__gte=next(_steps(period, now=now)), at__lte=now)
    bad = Sum(F("failed") + F("timed_out"))
    sums = rows.exclude(**{of: ""}).values(of).annotate(bad=bad, good=Sum("success")).order_by(of)
    return [Ended(name=row[of], judged=row["good"] + row["bad"], failed=row["bad"]) for row in sums]


@cache
def began_at() -> datetime:
    """When the farm's tables were made: nothing of it was before. Read once by a process."""
    applied = MigrationRecorder.Migration.objects.filter(app="jobs").aggregate(first=Min("applied"))
    return applied["first"] or datetime.fromtimestamp(0, UTC)


def total(period: Period, *, now: datetime, queue: str = "") -> Point:
    """What happened in one queue, or in all of them, in the period that ends now: the `total` of its `history`."""
    since = next(_steps(period, now=now))
    rows = _rows(period, since=since, until=now)
    return _together(since, [row for row in rows if queue in ("", row.queue)])


def day_of_queues(*, start: datetime, stop: datetime) -> list[HealthScore]:
    """How each queue did, by what was counted: how many jobs ended and were not canceled, how long they waited, and how
    many are due now. Its day and subject are the caller's."""
    due = Live.objects.filter(lease_secret=None, run_at__lte=Now()).values_list("queue").annotate(Count("pk"))
    backlog, hours = dict(due), defaultdict[str, list[Rollup]](list)
    for row in _between(rollups.HOUR_S, since=start, until=stop):
        hours[row.queue].append(row)
    days = {name: _together(start, hours[name]) for name in Queue.objects.values_list("name", flat=True)}
    return [
        HealthScore(name=name, ended=day.judged, succeeded=day.success, backlog=backlog.get(name, 0),
                    latency_p50_s=day.waited_p50_s, latency_p95_s=day.waited_p95_s)
        for name, day in days.items()
    ]  # fmt: skip


def day_of_workers(*, start: datetime, stop: datetime) -> list[statements.Row]:
    """How each worker did that is not revoked or that ended something; rows of the same numbers."""
    return statements.load("jobs", "day_of_workers").run({"start": start, "stop": stop})


def keep_scores(scores: Sequence[HealthScore]) -> None:
    """Store scores; those of a day that were kept before are replaced."""
    numbers = ["ended", "succeeded", "score", "latency_p50_s", "latency_p95_s", "backlog", "computed_at"]
    HealthScore.objects.bulk_create(
        scores, update_conflicts=True, unique_fields=["day", "subject", "name"], update_fields=numbers
    )


def _counted(
    step_s: int, *, since: datetime, until: datetime, chosen: Chosen | None = None, by: str = ""
) -> dict[_Key, _Numbers]:
    """What happened in each step of this time, of all jobs or of chosen ones, whose kind is what they are told apart
    by."""
    counted: defaultdict[_Key, _Numbers] = defaultdict(_no_numbers)
    params: dict[str, Any] = {"since": since, "until": until, "step": timedelta(seconds=step_s)}
    if chosen is None:
        params |= {"first_id": first_since(since), "end_id": end_before(until)}
    else:
        params |= {"first_id": 0, "end_id": 2**63 - 1, "most": MOST_TAGGED, "tag": chosen.tag, "owner": chosen.owner}
    for row in counting(chosen and chosen.index, by=by).run(params):
        numbers = counted[row.at, row.queue, row.kind]
        if row.bucket is None:
            numbers[row.measure] = row.jobs
        else:
            numbers[row.measure][str(row.bucket)] = row.jobs
    return counted


@cache
def counting(index: str | None = None, *, by: str = "") -> statements.Statement:
    """rollup_minutes.sql over all jobs, or over chosen ones by the index that leads to them."""
    loaded = statements.load("jobs", "rollup_minutes")
    if index is None:
        return replace(loaded, sql=loaded.sql.format(**_ALL))
    where = " WHERE %(tag)s::text = '' OR %(tag)s::text = ANY (one.tags)" if index == "owner" else ""
    chosen = _CHOSEN["chosen"].format(ids=_IDS[index], label=_LABELS[by], where=where)
    return replace(loaded, sql=loaded.sql.format(**{**_CHOSEN, "chosen": chosen}))


def _rows_of(chosen: Chosen, period: Period, *, since: datetime, until: datetime, by: str = "") -> list[Rollup]:
    """As `_rows`, of chosen jobs, counted now."""
    counted = sorted(_counted(period.step_s, since=since, until=until, chosen=chosen, by=by).items())
    return [Rollup(at=at, queue=queue, kind=kind, **numbers) for (at, queue, kind), numbers in counted]


def _no_numbers() -> _Numbers:
    return dict.fromkeys(("arrived", *_OUTCOMES), 0) | {"ran": {}, "waited": {}}


def _numbers(rows: Sequence[Rollup]) -> _Numbers:
    """What these rows add up to."""
    sums = {name: sum(getattr(row, name) for row in rows) for name in ("arrived", *_OUTCOMES)}
    return sums | {name: rollups.merged(getattr(row, name) for row in rows) for name in ("ran", "waited")}


def _add_up(part_s: int, step_s: int, *, since: datetime, until: datetime) -> None:
    """Add up all the longer steps that this time touches, each from all of its shorter ones."""
    since, last = (rollups.floored(at, step_s=step_s) for at in (since, until - timedelta.resolution))
    period = {"since": since, "until": last + timedelta(seconds=step_s)}
    parts: defaultdict[_Key, list[Rollup]] = defaultdict(list)
    for row in _between(part_s, **period):
        parts[rollups.floored(row.at, step_s=step_s), row.queue, row.kind].append(row)
    _replace({key: _numbers(rows) for key, rows in parts.items()}, step_s=step_s, **period)


def _replace(fresh: Mapping[_Key, _Numbers], *, step_s: int, since: datetime, until: datetime) -> int:
    """Keep these numbers as all there are of this time; how many rows that changes."""
    kept = {(row.at, row.queue, row.kind): row for row in _between(step_s, since=since, until=until)}
    changed = [key for key, numbers in fresh.items() if key not in kept or numbers != _numbers([kept[key]])]
    rows = [Rollup(step_s=step_s, at=key[0], queue=key[1], kind=key[2], **fresh[key]) for key in changed]
    Rollup.objects.bulk_create(
        rows, update_conflicts=True, unique_fields=["step_s", "at", "queue", "kind"], update_fields=[*_no_numbers()]
    )
    gone = [kept[key].pk for key in kept.keys() - fresh.keys()]  # a job that moved to another queue
    Rollup.objects.filter(pk__in=gone).delete()
    return len(changed) + len(gone)


def _between(step_s: int, *, since: datetime, until: datetime) -> QuerySet[Rollup]:
    return Rollup.objects.filter(step_s=step_s, at__gte=since, at__lt=until)


def _parts(rows: list[Rollup], steps: list[datetime], *, of: Literal["queue", "kind"]) -> list[Part]:
    """The rows by queue or by kind, in the order of the names."""
    named: dict[str, list[Rollup]] = {}
    for row in rows:
        named.setdefault(getattr(row, of), []).append(row)
    return [_part(name, entries, steps) for name, entries in sorted(named.items())]


def _part(name: str, rows: list[Rollup], steps: list[datetime]) -> Part:
    line = charts.stack([_ended_by_step(rows, steps)], []).layers[0]
    return Part(name=name, total=_together(steps[0], rows), line=line)


def _most_first(part: Part) -> int:
    return -max(part.total.arrived, part.total.ended)


def _rows(period: Period, *, since: datetime, until: datetime) -> list[Rollup]:
    rows = Rollup.objects.filter(step_s=period.step_s, at__gte=since, at__lte=until)
    return list(rows.order_by("at", "queue"))


def _steps(period: Period, *, now: datetime) -> Iterator[datetime]:
    last = rollups.floored(now, step_s=period.step_s)
    for back in range(period.steps - 1, -1, -1):
        yield last - timedelta(seconds=back * period.step_s)


def _together(at: datetime, rows: list[Rollup], *, is_counted: bool = True) -> Point:
    return Point(at=at, is_counted=is_counted, **_numbers(rows))


def _ended_by_step(rows: list[Rollup], steps: list[datetime]) -> list[int]:
    ended = dict.fromkeys(steps, 0)
    for row in rows:
        ended[row.at] += row.success + row.failed + row.canceled + row.timed_out
    return list(ended.values())
