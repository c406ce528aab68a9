"""A scene: rows that are put back before each schedule, what actors may do with them, and what has to hold then."""

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from django.db import connection, transaction

from core.refusal import Refusal
from jobs.operations import lanes
from scheduling.operations import is_away
from tests.schedules.actors import Choose, Stage, Task
from tests.schedules.search import Outcome

# Rows are put back as they were, with their ids: what refers to them need not be looked at.
_KEEP: Final = """
DROP SCHEMA IF EXISTS kept CASCADE;
CREATE SCHEMA kept;
DO $$ DECLARE place text; BEGIN
    FOR place IN SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace LOOP
        EXECUTE format('CREATE UNLOGGED TABLE kept.%I AS TABLE public.%I', place, place);
    END LOOP;
END $$"""
_PUT_BACK: Final = """
SET session_replication_role = replica;
DO $$ DECLARE place text; BEGIN
    FOR place IN
        SELECT c.relname FROM pg_class AS c WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
          AND c.relname ~ '^(jobs|scheduling|outbox|webhooks|chaos|django_admin_log)'
          AND pg_relation_size(c.oid) + coalesce(pg_relation_size(to_regclass('kept.' || c.relname)), 0) > 0
    LOOP
        EXECUTE format('DELETE FROM public.%I', place);
        EXECUTE format('INSERT INTO public.%I OVERRIDING SYSTEM VALUE TABLE kept.%I', place, place);
    END LOOP;
END $$;
SET session_replication_role = origin"""
_MADE_ANEW: Final = """
DO $$ DECLARE definition text; BEGIN
    FOR definition IN SELECT pg_get_functiondef(oid) FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace
          AND proname ~ '^(jobs|scheduling|outbox|webhooks|ratelimits|metering)_'
    LOOP
        EXECUTE definition;
    END LOOP;
END $$"""
_MOST_BREAKS: Final = 5  # of one action; with four actors there are three at most
_TIDY_EACH: Final = 100  # schedules, after which dead rows are taken out of the tables


def migrate() -> None:
    """What a migration of a farm at work does: every function of the database is made anew, whoever is in the middle of
    it. Two go one after the other, as `manage.py migrate` has it (docs/adr/0034)."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(1, 34)")
        cursor.execute(_MADE_ANEW)


class Scene(Protocol):
    """What can be played, and judged."""

    stage: Stage
    runs: int

    def actions(self) -> Mapping[str, Task]:
        """What an actor may do, by its name."""

    def begin(self) -> None:
        """Before a schedule, with the rows in place."""

    def faults(self) -> list[str]:
        """What does not hold after a schedule, a sentence each."""


class Kept:
    """What scenes have in common. One makes its rows when it is made, and calls `keep` then."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.runs = stage, 0

    def keep(self) -> None:
        """From now on these are the rows that each schedule begins with."""
        self.stage.watcher.execute(_KEEP)

    def begin(self) -> None:
        """Nothing but the rows."""

    def breaks(self) -> dict[str, Task]:
        """What breaks in every scene, and what changes beneath it."""
        stage = self.stage
        return {"kill": stage.kill, "fail over": stage.fail_over, "lose an answer": stage.lose, "migrate": migrate}


def run(scene: Scene, names: Sequence[str], choose: Choose) -> Outcome:
    """Play a schedule of these actions; a name may come twice."""
    if scene.runs % _TIDY_EACH == 0:
        scene.stage.watcher.execute("VACUUM")
    scene.stage.watcher.execute(_PUT_BACK)
    scene.runs += 1
    lanes._UNTIDIED.__init__()  # type: ignore[misc]
    scene.begin()
    actions = scene.actions()
    tasks = {f"{n} {name}": _repeated(actions[name]) for n, name in enumerate(names, start=1)}
    play = scene.stage.play(tasks, choose)
    faults = [f"{name} raised {error!r}" for name, error in play.errors.items()]
    return Outcome(play, faults + scene.faults())


def _repeated(act: Task) -> Task:
    """The same; that the farm refuses is an answer, and who got none asks again, on another connection."""

    def acted() -> None:
        for _ in range(_MOST_BREAKS):
            try:
                act()
            except Refusal:
                return
            except Exception as error:
                if not is_away(error):
                    raise
                connection.close()
            else:
                return

    return acted
