"""Three mutations that read and append to the same lists, and two clusters that run what is due."""

import itertools
import uuid
from collections import Counter
from typing import Final

from django.db import connection

from scheduling import operations as scheduling
from scheduling.domain.calls import Kind
from scheduling.models import ScheduledFunction
from scheduling.operations import clusters, runner
from scheduling.queries.functions import Holder
from tests.chaos import functions, reads
from tests.histories import mutations
from tests.schedules.actors import Stage, Task
from tests.schedules.scene import Kept

NUMBERS: Final = (1, 4, 5)  # 1 reads what 4 appends to, and 4 what 1 does


class Functions(Kept):
    """Mutations that are due, and what clusters and people do with them."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        with connection.cursor() as cursor:
            cursor.execute(functions.MADE)
        self.rows = [scheduling.run_after(0, functions.write_row, n=n).pk for n in NUMBERS]
        self.clusters = [uuid.uuid4() for _ in range(2)]
        for cluster_id in self.clusters:
            clusters.begin(cluster_id, role="schedules")
        self.keep()

    def begin(self) -> None:
        """Numbers of mutations to come, each once."""
        self.numbers = itertools.count(8)

    def actions(self) -> dict[str, Task]:
        """What a cluster does with what is due, and what else becomes of it."""
        return {
            "run all": lambda: self._run(0, slice(None)),
            "run all beside": lambda: self._run(1, slice(None)),
            "run the last": lambda: self._run(1, slice(-1, None)),
            "run the second": lambda: self._run(1, slice(1, 2)),
            "cancel": lambda: scheduling.cancel(self.rows[0]),
            "give up": lambda: clusters.end(self.clusters[0], ending="died"),
            "schedule": lambda: scheduling.run_after(0, functions.write_row, n=next(self.numbers)),
            **self.breaks(),
        }

    def faults(self) -> list[str]:
        """Mutations that did not happen exactly as often as their row says, or not as if one came after another."""
        while scheduling.run_due():
            pass
        with connection.cursor() as cursor:
            cursor.execute("SELECT n FROM chaos_ledger")
            happened = Counter(n for (n,) in cursor.fetchall())
        faults = [
            f"mutation {row.args['n']} is {row.status}, and happened {happened[row.args['n']]} times"
            for row in ScheduledFunction.objects.filter(function__endswith="write_row")
            if happened[row.args["n"]] != (row.status == "success") or row.status not in {"success", "canceled"}
        ]
        return faults + list(mutations.faults(*reads.read()))

    def _run(self, place: int, which: slice) -> None:
        holder = Holder(cluster_id=self.clusters[place], ran_by="schedules")
        runner.mutations(clusters.dispatch(Kind.MUTATION, limit=9)[which], by=holder)
