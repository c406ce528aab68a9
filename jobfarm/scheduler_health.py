"""What is watched of the scheduler: clusters, scheduled functions, crons."""

from collections.abc import Iterator, Sequence
from typing import Final

from alerts.domain.rules import Unit
from core.commands import MANAGE
from jobfarm.findings import Area, Condition, Finding, Gauge, Level, Rule, is_starting
from postgres.statements import Row
from scheduling import operations as scheduling
from scheduling.domain.schedules import Source
from scheduling.models import Cron


def _clusters(facts: scheduling.Health) -> Iterator[Finding]:
    missing = facts.missing_roles()
    for role in missing:
        yield _no_cluster(role)
    if not missing:
        yield Finding(f"Clusters that run scheduled functions: {len(facts.clusters)}.", level=Level.FINE)


def _no_cluster(role: str) -> Finding:
    if is_starting():
        return Finding(f"No cluster for {role} has reported yet.", level=Level.STARTING)
    return Finding(
        f"No cluster for {role} runs: no {role[:-1]} is run, however long it has been due.",
        f"Start {MANAGE} cluster --{role} ({MANAGE} farm does).",
        level=Level.ERROR,
    )


def _named_to_strangers(crons: Sequence[Cron | Row]) -> str:
    """Sentences name the crons of code; what people called theirs is for the remedies."""
    names = [cron.name for cron in crons if cron.source == Source.CODE]
    others = len(crons) - len(names)
    return ", ".join([*names, *([f"{others} made or changed by people"] if others else [])])


def _colliding(facts: scheduling.Health) -> dict[tuple[str, ...], float]:
    """The most collisions by function and statement; those that collided most come first."""
    return {(one.function, one.statement[:100]): one.collisions for one in reversed(facts.colliding)}


def _free(facts: scheduling.Health) -> dict[str, list[int]]:
    """How many processes of each cluster have nothing to do, by role."""
    return {role: [one.free for one in facts.clusters if one.role == role] for role in ("mutations", "actions")}


_Functions = Condition[scheduling.Health]
_OfFunctions = Gauge[scheduling.Health]
scheduler: Final = Area(
    name="scheduler", read=scheduling.health, others=_clusters,
    gauges=[
        _OfFunctions("jobfarm_clusters_live", "Clusters that reported lately.",
                     lambda f: {role: len(free) for role, free in _free(f).items()}, ["role"]),
        _OfFunctions("jobfarm_cluster_workers_free", "Their processes with nothing to do.",
                     lambda f: {role: sum(free) for role, free in _free(f).items()}, ["role"]),
        _OfFunctions("jobfarm_functions_late", "Functions 15 s past their time, up to 1000.", lambda f: f.late),
        _OfFunctions("jobfarm_functions_oldest_late_seconds", "By how much the latest of them is.",
                     lambda f: f.oldest_late_s),
        _OfFunctions("jobfarm_functions_bad_of_a_day", "Functions that ended so within a day, up to 1000.",
                     lambda f: {"failed": f.failed, "unknown": f.unknown}, ["status"]),
        _OfFunctions("jobfarm_clusters_frozen_of_a_day", "Clusters that froze within a day.", lambda f: f.frozen),
        _OfFunctions(
            "jobfarm_mutation_collisions",
            "Runs that collided, of mutations that still wait to be run again (the 20 with the most, by function).",
            _colliding, ["function", "statement"],
        ),
    ],
    conditions=[
        _Functions(
            code="cluster_away", read=lambda f: dict.fromkeys(f.missing_roles(), 1.0), is_absence=True,
            title="No cluster runs", target="role", unit=Unit.PRESENCE, page="scheduling:crons",
            rule=Rule(
                "FarmHasNoCluster", "max by (role) (jobfarm_clusters_live) < 1",
                "No cluster runs {{ $labels.role }}", severity="critical", lasts="1m",
            ),
        ),
        _Functions(
            code="scheduler_late", read=lambda f: f.oldest_late_s,
            sentence=lambda f: f"Scheduled functions that are late: {f.late:,}, the oldest by {f.oldest_late_s:.0f} s.",
            remedy=lambda f: "Start more clusters, or more processes with --workers, that serve the late functions' "
            f"queues: {', '.join(f.late_queues)}."
            + (f" Mutations that run for long: {', '.join(f.longest)}. Let the long part be an action; "
               "pg_cancel_backend fails one in its statement." if f.longest else ""),
            title="Scheduled functions are late", unit=Unit.SECONDS, above=60, page="scheduling:functions",
            rule=Rule(
                "FunctionsAreLate", "jobfarm_functions_oldest_late_seconds",
                "Scheduled functions are over a minute late", lasts="2m",
            ),
        ),
        _Functions(  # without any cluster, that is the fault
            code="crons_overdue", read=lambda f: len(f.overdue) if f.clusters else 0, is_absence=True,
            sentence=lambda f: f"Crons that should have fired a minute ago: {_named_to_strangers(f.overdue)}.",
            remedy=lambda f: "The clusters' log says what fails. "
            f"Overdue: {', '.join(cron.name for cron in f.overdue)}.",
        ),
        _Functions(
            code="crons_unfirable", read=lambda f: len(f.unfirable),
            sentence=lambda f: "Crons that were paused because they could not be fired: "
            f"{_named_to_strangers(f.unfirable)}.",
            remedy=lambda f: "Fix the cause, then resume each on its page, or remove it. "
            + "; ".join(f"{cron.name}: {cron.pause_reason}" for cron in f.unfirable),
        ),
        _Functions(
            code="crons_failing", read=lambda f: len(f.failing),
            sentence=lambda f: f"Crons whose last firing failed: {_named_to_strangers(f.failing)}.",
            remedy=lambda f: "Fix the cause, and run it now on its page. "
            + "; ".join(f"{cron.name} (function #{cron.id}): {cron.error}" for cron in f.failing),
        ),
        _Functions(
            code="mutations_colliding", read=lambda f: len(f.colliding),
            sentence=lambda f: f"Mutations that keep colliding: {len(f.colliding)}; most often "
            f"{f.colliding[0].function} #{f.colliding[0].id}: {f.colliding[0].collisions} runs, last at "
            f"{f.colliding[0].statement[:100]}",
            remedy="Let it touch fewer rows, and find them by an index. If it never succeeds, it ends as failed.",
        ),
        _Functions(
            code="clusters_frozen", read=lambda f: f.frozen,
            sentence=lambda f: f"Clusters that froze within a day and were replaced: {f.frozen:,}.",
            remedy="The page of crons says when. Causes are lack of memory, or a machine that was suspended.",
            rule=Rule(
                "ClusterFroze", "jobfarm_clusters_frozen_of_a_day",
                "A cluster froze and was replaced within a day",
            ),
        ),
        _Functions(
            code="actions_unknown", read=lambda f: f.unknown,
            sentence=lambda f: f"Actions with an unknown outcome within a day: {f.unknown:,}.",
            remedy="Their processes died. Check each on the page of functions, and repeat those that may happen twice.",
            rule=Rule(
                "ActionsEndedUnknown", 'jobfarm_functions_bad_of_a_day{status="unknown"}',
                "Actions ended as unknown within a day",
            ),
        ),
    ],
)  # fmt: skip
