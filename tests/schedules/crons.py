"""Two crons that are due, with clusters that fire them and run what is fired, and people who pause and change them."""

import uuid
from collections import Counter
from datetime import timedelta
from typing import Final

from django.db import connection
from django.db.models import Count, F

from scheduling import operations as scheduling
from scheduling.domain.calls import Kind
from scheduling.domain.schedules import Interval, Missed, Overlap, Policy
from scheduling.models import Cron, ScheduledFunction
from scheduling.operations import clusters, crons, runner
from scheduling.queries.functions import Holder
from tests import farm
from tests.chaos import functions
from tests.schedules.actors import Stage, Task
from tests.schedules.scene import Kept

EVERY: Final = timedelta(hours=1)
FUNCTION: Final = f"{functions.__name__}.write_row"
ONCE: Final = Policy()
ALL: Final = Policy(missed=Missed.CATCH_UP, at_most=2, overlap=Overlap.ALLOW)


class Crons(Kept):
    """`one` fires once for what was missed and never beside itself, `each` two at most, side by side."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        with connection.cursor() as cursor:
            cursor.execute(functions.MADE)
        Cron.objects.all().delete()  # those of the code
        for number, (name, policy) in enumerate({"one": ONCE, "each": ALL}.items(), start=1):
            crons.make(name, function=FUNCTION, schedule=Interval(every=EVERY), args={"n": number}, policy=policy)
        Cron.objects.update(next_at=farm.now() - 3 * EVERY)
        self.clusters = [uuid.uuid4() for _ in range(2)]
        for cluster_id in self.clusters:
            clusters.begin(cluster_id, role="schedules")
        self.keep()

    def actions(self) -> dict[str, Task]:
        """What clusters and people do with them."""
        return {
            "fire": crons.fire_due,
            "run": lambda: self._run(0),
            "run beside": lambda: self._run(1),
            "pause": lambda: crons.pause("one"),
            "resume": lambda: crons.resume("one"),
            "run now": lambda: crons.run_now("one"),
            "hasten": lambda: crons._hasten(["each"], 0.0),
            "edit": lambda: crons.edit("each", schedule=Interval(every=EVERY / 2), args={"n": 2}, policy=ALL),
            "remove": lambda: crons.remove("each"),
            "a cluster dies": lambda: clusters.end(self.clusters[0], ending="died"),
            **self.breaks(),
        }

    def faults(self) -> list[str]:
        """Fire times that came twice, or too early; what is due and does not fire; firings that did not run once."""
        crons.fire_due()
        while scheduling.run_due():
            pass
        with connection.cursor() as cursor:
            cursor.execute("SELECT n FROM chaos_ledger")
            happened = Counter(n for (n,) in cursor.fetchall())
        fired = ScheduledFunction.objects.filter(cron__isnull=False)
        done = Counter(row.args["n"] for row in fired if row.status == "success")
        twice = fired.values("cron_id", "fire_at").annotate(times=Count("pk")).filter(times__gt=1)
        faults = [f"{row['cron_id']} fired {row['times']} times for {row['fire_at']}" for row in twice]
        faults += [f"{row.cron_id} fired before {row.fire_at}" for row in fired.filter(fire_at__gt=F("created_at"))]
        faults += [f"a firing of {row.cron_id} is left {row.status}" for row in fired.exclude(status="success")]
        faults += [f"{n} ran {happened[n]} times for {done[n]} firings" for n in (1, 2) if happened[n] != done[n]]
        due = Cron.objects.filter(paused_at=None, retired_at=None, next_at__lte=farm.now())
        return faults + [f"{cron.name} is due, and does not fire" for cron in due]

    def _run(self, place: int) -> None:
        holder = Holder(cluster_id=self.clusters[place], ran_by="schedules")
        runner.mutations(clusters.dispatch(Kind.MUTATION, limit=9), by=holder)
