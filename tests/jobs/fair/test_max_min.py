"""A fair queue gives each share what max-min sharing gives it: nobody has more while another that waits has less of its
weight. Simulated time: each run is made as long ago as the simulation says, and the claims are real ones."""

import heapq
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest
from django.db import connection

from jobs import operations
from jobs.models import Job, Weight, Worker
from tests import farm
from tests.effort import turn

pytestmark = pytest.mark.django_db
HORIZON_S = 300.0
# Let runs have begun so long ago.
SINCE = """
UPDATE jobs_live SET claimed_at = clock_timestamp() - make_interval(secs => given.s)
FROM unnest(%s::bigint[], %s::float8[]) AS given (job_id, s) WHERE jobs_live.job_id = given.job_id
"""


@dataclass(frozen=True, kw_only=True)
class Tenant:
    """Somebody with so many jobs, each of which runs for so long."""

    name: str
    weight: int
    jobs: int
    length_s: float

    @property
    def wants_s(self) -> float:
        return self.jobs * self.length_s


def max_min(tenants: Sequence[Tenant], capacity_s: float) -> dict[str, float]:
    """Water filling: who wants less than their weight has that, and the rest is the others'."""
    left, given = capacity_s, dict[str, float]()
    waiting = list(tenants)
    while waiting:
        level = left / sum(tenant.weight for tenant in waiting)
        full = [tenant for tenant in waiting if tenant.wants_s <= level * tenant.weight]
        for tenant in full or waiting:
            given[tenant.name] = tenant.wants_s if full else level * tenant.weight
            left -= given[tenant.name]
        waiting = [tenant for tenant in waiting if full and tenant not in full]
    return given


@dataclass(kw_only=True)
class Simulation:
    """Slots that take the next job as soon as they are free."""

    worker: Worker
    tenants: dict[int, Tenant]
    slots: int
    now_s: float = 0.0
    running: dict[int, tuple[operations.ClaimedJob, int, float]] = field(default_factory=dict)  # and owner, since when
    ends: list[tuple[float, int]] = field(default_factory=list)
    busy_s: dict[str, float] = field(default_factory=dict)

    def run(self) -> None:
        self._take(self.slots)
        while self.ends and self.ends[0][0] <= HORIZON_S:
            self.now_s, job_id = heapq.heappop(self.ends)
            self._age()
            claimed, owner, since_s = self.running.pop(job_id)
            operations.finish(self.worker, [operations.Finished(job_id=job_id, lease=claimed.lease, outcome="success")])
            self._note(owner, self.now_s - since_s)
            self._take(1)
        for _, owner, since_s in self.running.values():
            self._note(owner, HORIZON_S - since_s)

    def _age(self) -> None:
        ages = {job_id: self.now_s - since_s for job_id, (_, _, since_s) in self.running.items()}
        with connection.cursor() as cursor:
            cursor.execute(SINCE, [list(ages), list(ages.values())])

    def _take(self, count: int) -> None:
        for claimed in operations.claim(self.worker, limit=count):
            owner = Job.objects.values_list("owner_id", flat=True).get(pk=claimed.id)
            assert owner is not None
            self.running[claimed.id] = (claimed, owner, self.now_s)
            heapq.heappush(self.ends, (self.now_s + self.tenants[owner].length_s, claimed.id))

    def _note(self, owner: int, seconds: float) -> None:
        name = self.tenants[owner].name
        self.busy_s[name] = self.busy_s.get(name, 0.0) + seconds


@pytest.mark.parametrize("seed", turn(range(8), of=4))
def test_each_has_what_max_min_sharing_gives_it(seed: int) -> None:
    rng = random.Random(seed)
    slots, farm_kind = rng.randint(1, 5), farm.kind()
    operations.set_fair(farm_kind.name, "owner")
    tenants: dict[int, Tenant] = {}
    for number in range(rng.randint(2, 6)):
        person = farm.user(f"person{number}")
        length_s = rng.choice([2.0, 5.0, 11.0])
        jobs = rng.choice([int(2 * HORIZON_S * slots / length_s), rng.randint(1, 20)])
        tenants[person.pk] = Tenant(
            name=person.username, weight=rng.choice([1, 1, 2, 3]), jobs=min(jobs, 250), length_s=length_s
        )
        Weight.objects.create(owner=person, weight=tenants[person.pk].weight)
        operations.submit_many([farm.new_job(owner=person) for _ in range(tenants[person.pk].jobs)])
    simulation = Simulation(worker=farm.worker(), tenants=tenants, slots=slots)
    simulation.run()
    most_s = min(slots * HORIZON_S, sum(tenant.wants_s for tenant in tenants.values()))
    expected = max_min(list(tenants.values()), most_s)
    longest_s = max(tenant.length_s for tenant in tenants.values())
    off = {
        tenant.name: round(simulation.busy_s.get(tenant.name, 0.0) - expected[tenant.name], 1)
        for tenant in tenants.values()
    }
    assert max(abs(seconds) for seconds in off.values()) <= 1.5 * longest_s, off
