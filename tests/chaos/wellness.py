"""Whether a farm is well: something of each sort is asked for, and has to come to its end."""

from typing import TYPE_CHECKING

from tests.chaos import farm as farms

if TYPE_CHECKING:
    from tests.chaos.load import Load
    from tests.chaos.truth import Findings


class Probe:
    """One job, one function of each kind and one delivery, asked for after a fault. Called until it says True."""

    def __init__(self, farm: farms.Farm, asking: "Load", findings: "Findings") -> None:
        self._farm, self._asking, self._findings = farm, asking, findings
        self._job = 0
        self._functions: list[int] = []
        self._delivery = ""
        self.where = "nothing was asked"

    def __call__(self) -> bool:
        with self._asking.client() as client:
            self._ask(client)
            return self._is_done(client)

    def _ask(self, client: "object") -> None:
        from tests.chaos import load

        while not self._job:
            self.where = "no job is taken"
            job = self._asking.submit(client, farms.WEBS[0], at_most_s=load.SHORT_S)  # type: ignore[arg-type]
            self._job = 0 if job in self._asking.book.verdicts else job
        while len(self._functions) < 2:
            self.where = "no function is taken"
            self._functions.append(self._asking.schedule())
        if not self._delivery:
            self.where = "no delivery is taken"
            self._delivery = self._asking.deliver(client, farms.WEBS[1])  # type: ignore[arg-type]

    def _is_done(self, client: "object") -> bool:
        from jobs.models import Job
        from postgres import connections
        from scheduling.models import ScheduledFunction
        from tests.chaos import truth
        from webhooks.models import Delivery

        with connections.released():
            live = {
                "job": Job.objects.living().filter(pk=self._job),
                "functions": ScheduledFunction.objects.filter(
                    function__startswith=truth.FUNCTIONS, args__n__in=self._functions, ended_at=None
                ),
                "delivery": Delivery.objects.filter(delivery_id=self._delivery).exclude(status="processed"),
            }
            waiting = [what for what, rows in live.items() if rows.exists()]
        self.where = f"waiting for {waiting}"
        if waiting:
            return False
        self.where = "pages do not answer"
        self._findings.untrue += truth.pages_are_true(client, self._farm, self._job)  # type: ignore[arg-type]
        return True
