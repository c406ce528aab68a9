"""/api/v1/scale: what it says, who may ask, and what it costs when much waits."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from pytest_django import Settings

from accounts import operations as accounts
from jobs import operations
from jobs.models import Job
from jobs.operations import rollup
from jobs.queries import fleet, gauges
from jobs.queries.rollups import Moments
from postgres import statements
from tests import farm
from tests.explained import explain

pytestmark = pytest.mark.django_db
TOKEN = "a-token-of-prometheus"


@pytest.fixture(autouse=True)
def _with_a_token(settings: Settings) -> None:
    settings.METRICS_TOKEN = TOKEN


def scale(token: str = TOKEN, **params: Any) -> Any:
    """The answer's JSON."""
    return Client().get("/api/v1/scale", params, headers={"Authorization": f"Bearer {token}"}).json()


def count(*, in_s: float) -> None:
    """Have the roll-up count as if so many seconds had passed."""
    then = farm.now() + timedelta(seconds=in_s)
    rollup.count(Moments(now=then, horizon=then))


class TestWhatItSays:
    def test_says_of_one_queue_what_is_due_runs_and_waits_longest(self) -> None:
        farm.kind()
        first, *_ = farm.submit(4)
        farm.submit(3, run_at=farm.now() + timedelta(hours=1))
        farm.submit(1, priority=5)
        farm.pass_time(first, 90)
        farm.claim_one(farm.worker())
        answer = scale(queue="work")
        assert 90 <= answer.pop("oldest_wait_s") < 150
        assert answer == {
            "queue": "work",
            "waiting": 4,
            "running": 1,
            "wanted_workers": 4,
            "arrivals_per_s": 0,
            "mean_run_s": None,
            "ceiling": None,
            "paused": False,
        }

    def test_says_of_every_queue_and_of_an_empty_one_that_it_wants_nobody(self) -> None:
        farm.kind("busy")
        farm.kind("idle")
        farm.submit(2, "busy")
        answer = {each["queue"]: each for each in scale()["queues"]}
        assert [answer[name]["wanted_workers"] for name in ("busy", "idle")] == [2, 0]
        assert (answer["idle"]["oldest_wait_s"], answer["idle"]["waiting"]) == (0, 0)

    def test_counts_jobs_that_some_workers_may_not_take(self) -> None:
        farm.kind()
        farm.submit(3)
        worker = farm.worker()
        farm.fail(worker, farm.claim_one(worker))
        farm.alter(Job.objects.all(), run_at=farm.now() - timedelta(seconds=1))
        assert scale(queue="work")["waiting"] == 3

    def test_takes_arrivals_and_runs_from_the_roll_up(self) -> None:
        farm.kind()
        worker = farm.worker()
        jobs = farm.submit(60)
        Job.objects.filter(pk__in=[job.pk for job in jobs]).update(created_at=farm.now() - timedelta(minutes=3))
        held = farm.claim_one(worker)
        farm.alter(held, claimed_at=farm.now() - timedelta(seconds=20))
        farm.succeed(worker, held)
        count(in_s=0)
        answer = scale(queue="work", drain_s=30)
        assert answer["arrivals_per_s"] == pytest.approx(0.1)
        assert answer["mean_run_s"] == pytest.approx(20, rel=0.1)
        assert answer["wanted_workers"] == pytest.approx(0.1 * 20 + 59 * 20 / 30, abs=5)

    def test_follows_pause_and_ceiling_and_what_a_worker_runs_at_a_time(self) -> None:
        farm.kind()
        farm.submit(30)
        assert scale(queue="work", jobs_per_worker=4)["wanted_workers"] == 8
        operations.set_ceiling("work", 5, by=None)
        answer = scale(queue="work")
        assert (answer["wanted_workers"], answer["ceiling"]) == (5, 5)
        operations.pause("work", by=None)
        answer = scale(queue="work")
        assert (answer["wanted_workers"], answer["paused"]) == (0, True)


class TestWhoMayAsk:
    def test_is_an_operator_with_a_token_that_reads(self, ada: User, boss: User) -> None:
        farm.kind()
        assert scale(_token(boss, "read"), queue="work")["waiting"] == 0
        assert scale(_token(boss, "submit"), queue="work")["error"] == "insufficient_scope"
        assert scale(_token(ada, "read"), queue="work")["error"] == "forbidden"

    @pytest.mark.parametrize("token", ["", "wrong"])
    def test_is_nobody_with_another_token(self, settings: Settings, token: str) -> None:
        assert scale(token)["error"] == "unauthorized"
        settings.METRICS_TOKEN = ""
        assert scale(token)["error"] == "unauthorized"

    @pytest.mark.parametrize(
        "params", [{"queue": "none"}, {"drain_s": "0"}, {"drain_s": "nan"}, {"jobs_per_worker": "0"}, {"q": "x"}]
    )
    def test_is_told_what_is_wrong_with_the_question(self, params: dict[str, str]) -> None:
        assert scale(**params)["error"] in {"unknown_queue", "invalid"}


def test_reads_no_job_that_is_due_later_and_no_more_than_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    farm.kind()
    farm.submit(300)
    farm.submit(2000, run_at=farm.now() + timedelta(hours=1))
    monkeypatch.setattr(gauges, "COUNTED", 100)
    assert scale(queue="work")["waiting"] == 100
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE jobs_live")
    plan = explain(statements.load("jobs", "scale"), {"name": "work", "limit": fleet.COUNTED, "queues": 200})
    assert _read_at_most(plan["Plan"]) <= 300


def _read_at_most(node: dict[str, Any]) -> float:
    """The most rows of jobs that one step of the plan read, those that it threw away included."""
    loops, own = node.get("Actual Loops", 0), 0.0
    if node.get("Relation Name") == "jobs_live":
        own = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * loops
    return max([own, *map(_read_at_most, node.get("Plans", []))])


def _token(person: User, scope: str) -> str:
    return accounts.create_token(person, name=scope, scopes=[scope])[1]
