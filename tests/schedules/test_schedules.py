"""Schedules of real statements: the suite has a few seconds of them, `make schedules MINUTES=10` as many as fit."""

import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pytest
from django.db import connection, transaction

from jobs.models import Job
from jobs.queries import waits
from tests import farm
from tests.schedules import orders, planted
from tests.schedules.actors import Choose, Stage
from tests.schedules.crons import Crons
from tests.schedules.flows import Flows
from tests.schedules.functions import Functions
from tests.schedules.inbox import Inbox
from tests.schedules.jobs import Jobs
from tests.schedules.outbox import Outbox
from tests.schedules.scene import Scene, run
from tests.schedules.search import Outcome, drawing, every, following, shrunk
from tests.schedules.suspends import Suspends

pytestmark = pytest.mark.django_db(transaction=True)
MINUTES = float(os.environ.get("SCHEDULES_MINUTES", "0.15"))
SEED = int(os.environ.get("SCHEDULES_SEED", "0")) or random.randrange(1, 10**6)
OPEN = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
  AND xact_start IS NOT NULL
"""
MOST = 3_000  # schedules of one pair
# A ceiling that is moved waits for who holds a row, half a second at most, and is then moved once more: `set_bounds`
# says why. It is seen by actions that set one. Who resumes or disables an endpoint has it locked before its messages,
# who writes what became of them the other way round: locking endpoints first would let one after the other be settled.
# Both are done once more.
KNOWN_CIRCLES = {
    "advisory 1784635253 before jobs_live before advisory 1784635253",
    "outbox_endpoint before outbox_message before outbox_endpoint",
}
ORDERS: list[orders.Later] = []  # of the scenes that were played
SCENES: dict[str, Callable[[Stage], Scene]] = {
    "jobs": Jobs, "flows": Flows, "functions": Functions, "crons": Crons, "inbox": Inbox, "outbox": Outbox,
    "suspends": Suspends,
}  # fmt: skip


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage() as made:
        yield made


@pytest.fixture(params=SCENES)
def scene(request: pytest.FixtureRequest, stage: Stage) -> Scene:
    return SCENES[request.param](stage)


def pairs(scene: Scene) -> list[tuple[str, ...]]:
    """Each two actions, and each one twice."""
    return list(itertools.combinations_with_replacement(scene.actions(), 2))


def running(scene: Scene, names: Sequence[str]) -> Callable[[Choose], Outcome]:
    return lambda choose: run(scene, names, choose)


def explained(scene: Scene, names: Sequence[str], outcome: Outcome) -> str:
    """A failing schedule, as short as can be, with what it came to."""
    schedule, short = shrunk(running(scene, names), outcome.play.schedule)
    faults = "\n".join(short.faults or outcome.faults)
    return f"{faults}\n{', '.join(names)} by {schedule}\n{short.play if short.faults else outcome.play}"


def first_fault(scene: Scene, names: Sequence[str], *, switches: int | None = None, most: int = MOST) -> str | None:
    """The first fault of this pair, explained; None if there is none in so many schedules."""
    for outcome in itertools.islice(every(running(scene, names), switches=switches), most):
        if outcome.faults:
            return explained(scene, names, outcome)
    return None


def test_a_tidying_that_does_not_wait_for_who_puts_jobs_in_is_noticed(stage: Stage) -> None:
    scene = Jobs(stage)
    with planted.without(stage, "jobs_tidy", "OR NOT pg_try_advisory_xact_lock(1784635252, lane % 256)"):
        fault = first_fault(scene, ["submit in a transaction", "tidy"])
    assert fault is not None
    assert "waits where no claim looks" in fault


def test_an_end_that_does_not_compare_the_claim_is_noticed_and_made_short(stage: Stage) -> None:
    scene = Jobs(stage)
    with planted.statement_without("succeed", *planted.CLAIM_OF_AN_END):
        fault = next(fault for seed in range(300) if (fault := _drawn_fault(scene, seed)))
    assert "in no order can these have happened" in fault


@pytest.mark.landing
def test_a_wait_by_a_key_that_nobody_waits_for_to_be_written_is_noticed(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, names = Suspends(stage), ["waits by a key", "a signal by its key"]
    assert first_fault(scene, names, switches=2) is None
    monkeypatch.setattr(waits, "lock_key", lambda *_: None)
    fault = first_fault(scene, names, switches=2)
    assert fault is not None
    assert "1 waits are not over, though what they are for has come" in fault


@pytest.mark.landing
def test_an_endpoint_that_is_resumed_or_disabled_while_its_receiver_says_that_it_is_gone_is_no_error(
    stage: Stage,
) -> None:
    scene = Outbox(stage)
    for name in ("resume", "disable"):
        assert first_fault(scene, ["send to who is gone", name], switches=1) is None


def test_a_job_of_an_owner_who_is_resumed_while_the_pause_still_moves_jobs_is_found(stage: Stage) -> None:
    assert first_fault(Jobs(stage), ["pause the owner", "resume the owner"], switches=2) is None  # seed 617417


def test_a_claim_whose_answer_was_lost_before_a_pause_is_answered_after_it(stage: Stage) -> None:
    schedule = ["1 claim", "1 claim", "3 lose an answer", "2 pause"]  # seed 4001
    assert run(Jobs(stage), ["claim", "pause", "lose an answer"], following(schedule)).faults == []


def test_a_message_that_failed_and_was_put_behind_a_replay_is_due_once_that_has_arrived(stage: Stage) -> None:
    names = ["replay all", "replay all", "send in vain", "send"]  # seed 5001
    assert run(Outbox(stage), names, following(["4 send"])).faults == []


@pytest.mark.parametrize(("breaks", "most"), [("kill", 1), ("fail over", 1), ("lose an answer", 2)])
def test_what_breaks_off_does_so_at_each_step_and_only_a_lost_answer_lets_a_commit_be_repeated(
    stage: Stage, breaks: str, most: int
) -> None:
    scene = Jobs(stage)
    before, jobs = Job.objects.count(), list[int]()
    for outcome in every(running(scene, ["submit in a transaction", breaks])):
        assert outcome.faults == []
        assert stage.watcher.execute(OPEN).fetchone() == (0,), "a session that was broken off still has its locks"
        jobs.append(Job.objects.count() - before)
    assert (max(jobs), min(jobs), len(jobs) > 3) == (most, 1, True)


def _drawn_fault(scene: Scene, seed: int) -> str | None:
    names = ["release", "claim two", "finish"]
    outcome = run(scene, names, drawing(random.Random(seed)))
    return explained(scene, names, outcome) if outcome.faults else None


@pytest.mark.parametrize(
    "locks",
    [
        ("UPDATE jobs_queue SET ceiling = 1", "UPDATE jobs_worker SET name = name"),
        ("SELECT pg_advisory_xact_lock(7, 1)", "UPDATE jobs_queue SET ceiling = 1"),
    ],
)
def test_locks_that_are_taken_in_two_orders_are_noticed_though_nobody_comes_to_a_deadlock(
    stage: Stage, locks: tuple[str, str]
) -> None:
    farm.kind()
    farm.worker()
    for order in (locks, locks[::-1]):
        assert stage.orders.circles() == []
        tasks = {"one by one": partial(_run_each, order), "both": partial(_run_together, order)}
        each, both = tasks
        play = stage.play(tasks, following([each, both, each, each, both, each, both]))
        assert (play.waits, play.errors) == (2, {})
    assert len(stage.orders.circles()) == 1


def _run_each(statements: Sequence[str]) -> None:
    for statement in statements:
        _run_together([statement])


def _run_together(statements: Sequence[str]) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def test_as_many_schedules_as_fit(scene: Scene) -> None:
    """Half of the time pairs of actions, the other half three and four of them."""
    campaign = Campaign(scene, until=time.monotonic() + MINUTES * 60 / len(SCENES))
    campaign.try_pairs(share=0.5)
    campaign.draw()
    print(f"{type(scene).__name__}, seed {SEED}: {campaign}")
    ORDERS.append(scene.stage.orders.later)
    circles = set(orders.circles(orders.joined(ORDERS))) - KNOWN_CIRCLES
    assert (campaign.faults, circles) == ([], set()), f"seed {SEED}"


def test_locks_that_one_scene_takes_in_one_order_and_another_in_the_other_are_noticed() -> None:
    graph = orders.joined([{"jobs_live": {"jobs_mark"}}, {"jobs_mark": {"jobs_queue"}, "jobs_queue": {"jobs_live"}}])
    assert orders.circles(graph) == ["jobs_live before jobs_mark before jobs_queue before jobs_live"]


class Campaign:
    """Schedules until a moment of the monotonic clock, the first fault of each pair kept."""

    def __init__(self, scene: Scene, *, until: float) -> None:
        self.scene, self.rng, self.faults = scene, random.Random(SEED), list[str]()
        self.began, self.until, self.count, self.whole = time.monotonic(), until, 0, list[int]()
        self.circles = Counter[str]()

    def try_pairs(self, *, share: float) -> None:
        """All pairs with one switch, then with two, then with as many as there can be, in this share of the time."""
        everybody, until = pairs(self.scene), self.began + (self.until - self.began) * share
        for switches in (1, 2, None):
            self.whole.append(0)
            for names in self.rng.sample(everybody, len(everybody)):
                for outcome in itertools.islice(every(running(self.scene, names), switches=switches), MOST):
                    if self._note(names, outcome) or time.monotonic() > until:
                        break
                if time.monotonic() > until:
                    return
                self.whole[-1] += 1

    def draw(self) -> None:
        """Three or four actors by the dice, until the time is over."""
        for number in itertools.count():
            if time.monotonic() > self.until:
                return
            rng = random.Random(f"{SEED} {number}")
            names = rng.choices(list(self.scene.actions()), k=rng.choice([3, 4]))
            self._note(names, run(self.scene, names, drawing(rng)))

    def _note(self, names: Sequence[str], outcome: Outcome) -> bool:
        self.count += 1
        self.circles.update(outcome.play.circles)
        if outcome.faults:
            self.faults.append(explained(self.scene, names, outcome))
            print(self.faults[-1], flush=True)
        return bool(outcome.faults)

    def __str__(self) -> str:
        per_minute = self.count / (time.monotonic() - self.began) * 60
        rounds = ", ".join(map(str, self.whole))
        lines = [
            f"{self.count} schedules, {per_minute:.0f} a minute, {len(self.faults)} faults",
            f"pairs whole with one switch, two, and any number: {rounds} of {len(pairs(self.scene))}",
            f"locks in the order of {dict(self.scene.stage.orders.later)}; deadlocks {dict(self.circles)}",
        ]
        return "\n  ".join(lines)
