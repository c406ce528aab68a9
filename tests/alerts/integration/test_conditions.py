"""Each condition on a real farm's tables: made true it is sent once, repeated, and resolved when it is so no longer."""

import socket
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import F
from django.db.models.functions import Now

from alerts import operations, registry
from alerts.domain.rules import Condition, Reading, Unit
from alerts.models import Alert, Notification, Rule
from jobfarm.alert_conditions import LEAST_ENDED
from jobs import operations as jobs
from jobs.domain.presence import Part
from jobs.models import Job, Process, Rollup, RollupWatermark
from jobs.queries import fleet
from metering.models import Budget, Window
from outbox.models import Endpoint
from ratelimits import operations as ratelimits
from scheduling import operations as scheduling
from scheduling.models import Cluster, Cron, Due, ScheduledFunction
from scheduling.operations import crons
from tests import farm
from tests.alerts import watching
from tests.metering import budgets
from tests.outbox.support import endpoint
from tests.scheduling.integration import sample
from tests.webhooks.inbox.support import receive
from webhooks.models import Delivery

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """How a condition comes to hold, and how it ends; the subjects that it holds for; what is so before that. `values`:
    those of the rule."""

    begin: Callable[[], object]
    end: Callable[[], object]
    subjects: tuple[str, ...] = ("",)
    before: Callable[[], object] = int
    values: dict[str, Any] = field(default_factory=dict)


def fail_jobs(count: int = 1) -> None:
    farm.kind()
    worker = farm.worker()
    farm.submit(count)
    for _ in range(count):
        farm.fail(worker, farm.claim_one(worker), retryable=False)
    jobs.roll_up()


def age_history() -> None:
    watching.write("UPDATE jobs_rollup SET at = at - interval '1 hour'")
    farm.age(Job.objects.ended(), 3600)


def wait_for_an_hour() -> None:
    farm.kind()
    farm.submit(1)
    farm.alter(Job.objects.all(), run_at=Now() - timedelta(hours=1))


def be_claimed() -> None:
    farm.claim_one(farm.worker())


def be_served() -> None:
    farm.worker("w2")


def defer_an_hour_ago() -> None:
    scheduling.run_after(0, sample.make_group, name="late")
    ScheduledFunction.objects.update(run_at=Now() - timedelta(hours=1))
    Due.objects.update(run_at=Now() - timedelta(hours=1), next_at=Now() - timedelta(hours=1))


def run_mutations() -> None:
    scheduling.run_due(kinds=[scheduling.Kind.MUTATION])


def fire(*, late: timedelta = timedelta(0), function: str = "make_group") -> None:
    Cron.objects.update_or_create(
        name="report",
        defaults={
            "function": f"{sample.__name__}.{function}", "args": {"name": uuid.uuid4().hex}, "missed": "once",
            "overlap": "skip", "source": "person", "schedule": scheduling.interval(minutes=30).text(),
            "next_at": Now() - late,
        },
    )  # fmt: skip
    scheduling.fire_due()
    run_mutations()


def age_crons() -> None:
    Cron.objects.update(missed_at=F("missed_at") - timedelta(hours=1))


def bring_clusters() -> None:
    for role in ("mutations", "actions"):
        Cluster.objects.create(cluster_id=uuid.uuid4(), role=role, host="h", pid=1, last_seen_at=Now())


def bring_a_janitor() -> None:
    fleet.report_process(uuid.uuid4(), part=Part.JANITOR, host="h", pid=1)
    Process.objects.update(started_at=Now() - timedelta(hours=1))


def raise_threshold() -> None:
    rule = Rule.objects.get()
    values = {name: getattr(rule, name) for name in watching.VALUES}
    operations.change(rule.pk, {**values, "threshold": 99.99}, by=User.objects.get(username="boss"))


def die() -> None:
    delivery = receive()
    Delivery.objects.filter(pk=delivery.pk).update(status="dead", note="No.", ended_at=Now())


def be_replayed() -> None:
    Delivery.objects.update(status="processed", note=None)


def use_up() -> None:
    while ratelimits.limit("log-in", key="user:ada").ok:
        pass


def allow_waiting(jobs_in_all: int) -> None:
    settings.JOBFARM["WAITING_JOBS_IN_ALL"] = jobs_in_all


def fill_a_quota(most: int) -> None:
    farm.kind()
    farm.submit(1)
    jobs.measure_usage()
    allow_waiting(most)


def take_away_clusters() -> None:
    Cluster.objects.all().delete()


def take_away_janitors() -> None:
    fleet.report_process(uuid.uuid4(), part=Part.WEB, host="h", pid=1)
    Process.objects.filter(part="janitor").delete()
    Process.objects.update(started_at=Now() - timedelta(hours=1))


def refill() -> None:
    ratelimits.reset("log-in", key="user:ada")


def use_a_budget() -> None:
    made = budgets.budget("tokens", 100, person=farm.user("ada"))
    Window.objects.create(budget=made, starts_at=budgets.tomorrow() - timedelta(days=1), used=95)


def raise_the_budget() -> None:
    Budget.objects.update(amount=1000)


def fail_an_endpoint() -> None:
    """An hour without a success."""
    endpoint(failing_since=Now() - timedelta(hours=1))


def mend_the_endpoint() -> None:
    """It takes messages again."""
    Endpoint.objects.update(failing_since=None)


WORK = ("work",)
CASES = {
    "jobs_failed": Case(begin=fail_jobs, end=age_history, subjects=WORK),
    "kind_failed": Case(begin=fail_jobs, end=age_history, subjects=WORK),
    "failure_share": Case(begin=lambda: fail_jobs(5), end=age_history, subjects=WORK),
    "kind_failure_share": Case(begin=lambda: fail_jobs(5), end=age_history, subjects=WORK),
    "jobs_wait": Case(begin=wait_for_an_hour, end=be_claimed, subjects=WORK),
    "no_worker": Case(begin=wait_for_an_hour, end=be_served, subjects=WORK),
    "scheduler_late": Case(begin=defer_an_hour_ago, end=run_mutations),
    "cron_missed": Case(begin=lambda: fire(late=timedelta(hours=1)), end=age_crons, subjects=("report",)),
    "cron_failed": Case(begin=lambda: fire(function="make_group_and_break"), end=fire, subjects=("report",)),
    "deliveries_dead": Case(begin=die, end=be_replayed),
    "endpoint_failing": Case(begin=fail_an_endpoint, end=mend_the_endpoint, subjects=("hooks",)),
    "cluster_away": Case(
        before=bring_clusters, begin=take_away_clusters, end=bring_clusters, subjects=("actions", "mutations")
    ),
    "janitor_away": Case(before=bring_a_janitor, begin=take_away_janitors, end=bring_a_janitor),
    "limit_exhausted": Case(begin=use_up, end=refill, subjects=("log-in user:ada",), values={"target": "log-in"}),
    "quota": Case(
        before=lambda: allow_waiting(1000),
        begin=lambda: fill_a_quota(1),
        end=lambda: allow_waiting(1000),
        subjects=("waiting jobs",),
    ),
    "budget_used": Case(
        begin=use_a_budget, end=raise_the_budget, subjects=("tokens per day of ada",), values={"target": "ada"}
    ),
}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the crons that a firing finds, and with quotas of its own."""
    monkeypatch.setattr(settings, "JOBFARM", dict(settings.JOBFARM))
    monkeypatch.setattr(crons, "_declared", {})
    Cron.objects.all().delete()


@pytest.mark.parametrize("condition", sorted(CASES))
def test_is_sent_once_repeated_and_resolved(condition: str) -> None:
    case = CASES[condition]
    case.before()
    watching.make(condition, name="It", **case.values)
    assert watching.watch() == []
    case.begin()
    firing = [f"[FIRING:{len(case.subjects)}] It"]
    assert watching.watch() == firing
    assert watching.states() == dict.fromkeys(sorted(case.subjects), "firing")
    assert watching.watch(after=10) == []
    assert watching.watch(after=60) == firing
    case.end()
    assert watching.watch(after=10) == ["[RESOLVED] It"]
    assert watching.watch(after=100) == []
    assert watching.states() == {}


def test_the_disk_is_that_of_the_machine_that_judges() -> None:
    watching.make("disk", name="It", threshold=0.001)
    assert watching.watch() == ["[FIRING:1] It"]
    assert watching.states() == {socket.gethostname(): "firing"}
    Alert.objects.update(subject="another machine")
    raise_threshold()
    assert watching.watch(after=10) == []
    assert watching.states() == {"another machine": "firing"}
    Alert.objects.update(subject=socket.gethostname())
    assert watching.watch(after=1) == ["[RESOLVED] It"]


def test_every_condition_is_tested_here() -> None:
    assert {*CASES, "disk"} == {condition.code for condition in registry.everything()}


def test_a_roll_up_that_is_behind_resolves_nothing() -> None:
    watching.make("failure_share", name="It")
    fail_jobs(5)
    assert watching.watch() == ["[FIRING:1] It"]
    age_history()
    farm.submit(1)
    Job.objects.waiting().update(created_at=Now() - timedelta(minutes=5))
    RollupWatermark.objects.update(counted_at=Now() - timedelta(minutes=10))
    assert watching.watch(after=10) == []
    rule = Rule.objects.get()
    assert (rule.unknown, watching.states()) == ("The roll-up of jobs is behind.", {"work": "firing"})
    jobs.roll_up()
    assert watching.watch(after=1) == ["[RESOLVED] It"]
    assert Rule.objects.get().unknown == ""


@pytest.mark.parametrize("condition", ["no_worker", "cluster_away", "janitor_away"])
def test_a_farm_that_starts_says_nothing_of_what_is_on_its_way(condition: str) -> None:
    wait_for_an_hour()
    fleet.report_process(uuid.uuid4(), part=Part.WEB, host="h", pid=1)
    watching.make(condition, name="It")
    assert watching.watch() == []
    assert Rule.objects.get().unknown == "The farm has just been started."


def test_a_queue_that_is_paused_waits_for_nobody() -> None:
    wait_for_an_hour()
    jobs.pause("work")
    watching.make("no_worker", name="It")
    assert watching.watch() == []


def test_a_rule_for_one_queue_is_about_that_one() -> None:
    for kind in ("photos", "images"):
        farm.kind(kind)
        farm.submit(1, kind)
    farm.alter(Job.objects.all(), run_at=Now() - timedelta(hours=1))
    watching.make("jobs_wait", name="It", target="images")
    assert watching.watch() == ["[FIRING:1] It"]
    assert watching.states() == {"images": "firing"}


def test_a_few_jobs_have_no_share_that_says_something() -> None:
    watching.make("failure_share", name="It")
    fail_jobs(LEAST_ENDED - 1)
    assert watching.watch() == []


def test_a_condition_that_cannot_be_read_or_is_gone_is_not_known(caplog: pytest.LogCaptureFixture) -> None:
    @registry.register(Condition(code="broken", title="It breaks", unit=Unit.NUMBER))
    def _(_: int) -> Reading:
        raise sample.Broken("no luck")

    try:
        watching.make("broken", name="It")
        watching.watch()
        assert Rule.objects.get().unknown == "It cannot be read: Broken. The log has its traceback."
        assert "The condition broken cannot be read" in caplog.text
    finally:
        registry._registered.pop("broken")
    watching.watch(after=1)
    assert Rule.objects.get().unknown == "No app knows this condition."


def test_thousands_of_kinds_that_fail_are_one_message() -> None:
    fail_jobs()
    row = Rollup.objects.filter(step_s=60).values().get()
    Rollup.objects.bulk_create(Rollup(**{**row, "kind": f"kind-{number}"}) for number in range(1999))
    watching.make("kind_failed", name="It")
    assert watching.watch() == ["[FIRING:2000] It"]
    [notification] = Notification.objects.all()
    assert len(notification.body) < 5000
    assert Alert.objects.count() == 200


@pytest.mark.parametrize(("window_s", "ago_s"), [(300, 180), (7200, 7000), (86400, 85000)])
def test_a_window_is_as_long_as_it_says(window_s: int, ago_s: int) -> None:
    watching.make("jobs_failed", name="It", window_s=window_s)
    fail_jobs()
    watching.write(f"UPDATE jobs_rollup SET at = at - interval '{ago_s} s'")
    assert watching.watch() == ["[FIRING:1] It"]
    watching.write("UPDATE jobs_rollup SET at = at - interval '20 minutes'")
    assert watching.watch(after=10) == ["[RESOLVED] It"]
