"""What happens becomes an event, in the transaction that makes it true, and costs nothing where nobody asks."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, transaction
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from jobs import operations as jobs
from jobs.models import Job, Worker
from outbox import crons, operations as outbox
from outbox.domain.messages import GONE
from outbox.models import Callback, Endpoint, Event, Message
from scheduling import operations as scheduling
from scheduling.operations import clusters
from tests import farm
from tests.outbox.support import endpoint, messages

pytestmark = pytest.mark.django_db(transaction=True)
_LONG_AGO = Now() - timedelta(days=31)
ADDRESSES = "addresses of jobs that have ended"


@scheduling.mutation
def breaks() -> None:
    raise ValueError("broken")


@scheduling.action()
def breaks_outside() -> None:
    raise ValueError("broken outside")


@pytest.fixture
def work() -> jobs.ClaimedJob:
    farm.kind(max_attempts=1)
    farm.submit(1)
    return farm.claim_one(farm.worker())


def worker() -> Any:
    return farm.stored_worker(Worker.objects.get())


def events() -> list[tuple[str, str]]:
    return [(one.type, one.subject) for one in Event.objects.order_by("id")]


def retained() -> int:
    """How many endpoints of addresses that nobody uses the retention of a day removes."""
    return farm.retain("addresses of submits")


def data() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(Event.objects.latest("id").body)["data"]
    return document


class TestAJob:
    def test_that_succeeds(self, work: jobs.ClaimedJob) -> None:
        endpoint()
        farm.succeed(worker(), work, {"answer": 42})
        assert events() == [("job.succeeded", f"job/{work.id}")]
        assert {name: data()[name] for name in ("id", "kind", "status", "attempt", "worker", "error")} == {
            "id": work.id, "kind": "work", "status": "success", "attempt": 1, "worker": "w1", "error": None,
        }  # fmt: skip
        assert Event.objects.get().occurred_at == Job.objects.get().ended_at
        assert Event.objects.get().body_with_result is None

    def test_has_its_result_where_that_is_asked_for(self, work: jobs.ClaimedJob, settings: Settings) -> None:
        endpoint(with_result=True)
        farm.succeed(worker(), work, {"answer": 42})
        body = json.loads(Event.objects.get().body_with_result or "")
        assert body["data"]["result"] == {"answer": 42}

    def test_says_that_its_result_is_too_large(self, work: jobs.ClaimedJob, settings: Settings) -> None:
        settings.OUTBOX = {**settings.OUTBOX, "RESULT_BYTES": 20}
        endpoint(with_result=True)
        farm.succeed(worker(), work, "x" * 100)
        body = json.loads(Event.objects.get().body_with_result or "")
        assert body["data"]["result_omitted"] == "it has more than 20 bytes"

    def test_without_a_result_has_none(self, work: jobs.ClaimedJob) -> None:
        endpoint(with_result=True)
        farm.succeed(worker(), work)
        assert Event.objects.get().body_with_result is None

    def test_that_fails(self, work: jobs.ClaimedJob) -> None:
        endpoint()
        failed = jobs.Finished(job_id=work.id, lease=work.lease, outcome="failed", error="it broke")
        jobs.finish(worker(), [failed])
        assert events() == [("job.failed", f"job/{work.id}")]
        assert data()["error"] == "it broke"

    def test_that_will_be_tried_again_is_no_event(self) -> None:
        farm.kind(max_attempts=2)
        farm.submit(1)
        claimed = farm.claim_one(farm.worker())
        endpoint()
        jobs.finish(worker(), [jobs.Finished(job_id=claimed.id, lease=claimed.lease, outcome="failed", error="x")])
        assert events() == []

    @pytest.mark.parametrize("is_running", [True, False])
    def test_that_is_canceled(self, *, is_running: bool) -> None:
        farm.kind()
        [job] = farm.submit(1)
        if is_running:
            farm.claim_one(farm.worker())
        endpoint()
        jobs.cancel(job.pk, by=None)
        assert events() == [("job.canceled", f"job/{job.pk}")]

    def test_that_waits_too_long(self) -> None:
        farm.kind()
        [job] = farm.submit(1)
        farm.alter(Job.objects.all(), expires_at=Now() - timedelta(seconds=1))
        endpoint()
        jobs.sweep()
        assert events() == [("job.timed_out", f"job/{job.pk}")]

    def test_that_is_lost_and_lost_for_the_last_time(self) -> None:
        farm.kind(max_attempts=2)
        [job] = farm.submit(1)
        me = farm.worker()
        endpoint()
        for _ in range(2):
            farm.forgive(job)
            claimed = farm.claim_one(me)
            jobs.heartbeat(me, claimed.id, claimed.lease)
            farm.expire_lease(claimed)
            jobs.sweep()
        subject = f"job/{job.pk}"
        assert events() == [("job.lost", subject), ("job.lost", subject), ("job.timed_out", subject)]

    def test_goes_to_its_owner_and_their_group(self) -> None:
        group = Group.objects.create(name="lab")
        ann, bob, eve = farm.user("ann", groups=[group]), farm.user("bob", groups=[group]), farm.user("eve")
        mine = {one.username: endpoint(owner=one) for one in (ann, bob, eve)}
        farm.kind()
        [job] = farm.submit(1, owner=ann, group=group)
        jobs.cancel(job.pk, by=ann)
        assert {name: len(messages(one)) for name, one in mine.items()} == {"ann": 1, "bob": 1, "eve": 0}
        assert (data()["owner"], data()["group"]) == ("ann", "lab")

    @pytest.mark.parametrize("how", [{"on_conflict": "replace"}, {"debounce": {"quiet": 60, "at_most": 600}}])
    def test_that_a_newer_submit_replaces(self, how: dict[str, Any]) -> None:
        farm.kind()
        endpoint()
        ann = farm.user("ann")
        submits = [jobs.submit("work", n, owner=ann, by=ann, unique_key="main", priority=-n, **how) for n in range(2)]
        job = Job.objects.get()
        assert [one.pk for one in submits] == [job.pk] * 2
        assert events() == [("job.replaced", f"job/{job.pk}")]
        wanted = {"id": job.pk, "status": "pending", "unique_key": "main", "owner": "ann", "by": "ann", "priority": -1}
        assert {name: data()[name] for name in wanted} == wanted
        assert data()["run_at"] == submits[1].run_at.isoformat()
        assert data()["before"] == {
            "submitted_at": submits[0].created_at.isoformat(), "queue": "work", "priority": 0,
            "run_at": submits[0].run_at.isoformat(),
        }  # fmt: skip
        jobs.submit("work", 2, owner=ann, unique_key="main", **how)
        assert data()["before"]["submitted_at"] == job.replaced_at.isoformat()  # type: ignore[union-attr]

    def test_whose_end_is_rolled_back_is_no_event(self, work: jobs.ClaimedJob) -> None:
        endpoint()
        with transaction.atomic():
            jobs.cancel(work.id, by=None)
            transaction.set_rollback(True)
        assert events() == []


class TestTheRest:
    def test_a_queue_that_is_paused_and_resumed(self) -> None:
        farm.kind()
        endpoint()
        root = farm.user("root")
        (jobs.pause("work", by=root), jobs.pause("work", by=root), jobs.resume("work", by=root), jobs.resume("work"))
        assert events() == [("queue.paused", "queue/work"), ("queue.resumed", "queue/work")]
        assert data() == {"queue": "work", "by": "root"}

    @pytest.mark.parametrize(
        ("function", "error"), [(breaks, "ValueError: broken"), (breaks_outside, "broken outside")]
    )
    def test_a_cron_that_fails(self, function: Callable[[], None], error: str, monkeypatch: pytest.MonkeyPatch) -> None:
        from scheduling.operations import crons

        monkeypatch.setattr(crons, "_declared", {})
        scheduling.declare("breaking", scheduling.daily(hour=1), function)
        scheduling.sync_crons()
        endpoint()
        fired = scheduling.run_now("breaking")
        clusters.run_due()
        assert events() == [("cron.failed", "cron/breaking")]
        assert data()["function_id"] == fired.pk
        assert error in data()["error"]

    def test_a_function_that_no_cron_scheduled_is_none(self) -> None:
        endpoint()
        scheduling.run_after(0, breaks)
        clusters.run_due()
        assert events() == []


class TestACallback:
    @pytest.fixture(autouse=True)
    def _allowed(self, settings: Settings) -> None:
        settings.OUTBOX = {**settings.OUTBOX, "CALLBACK_HOSTS": ("hooks.example", ".internal.example")}

    def test_gets_the_events_of_its_jobs(self) -> None:
        farm.kind()
        ann = farm.user("ann")
        one, two = farm.submit(2, owner=ann, callback_url="https://hooks.example/a")
        [other] = farm.submit(1, owner=ann)
        for job in (one, two, other):
            jobs.cancel(job.pk, by=ann)
        made = Endpoint.objects.get()
        assert (made.owner, made.is_callback, made.url) == (ann, True, "https://hooks.example/a")
        assert messages(made) == [("job.canceled", f"job/{one.pk}"), ("job.canceled", f"job/{two.pk}")]

    def test_of_a_submit_that_is_replaced_gets_that_and_no_more(self) -> None:
        farm.kind()
        for path in ("a", "b"):
            jobs.submit(
                "work", None, unique_key="k", on_conflict="replace", callback_url=f"https://hooks.example/{path}"
            )
        job = Job.objects.get()
        jobs.cancel(job.pk, by=None)
        by_path = {one.url[-1]: messages(one) for one in Endpoint.objects.all()}
        assert by_path == {"a": [("job.replaced", f"job/{job.pk}")], "b": [("job.canceled", f"job/{job.pk}")]}

    def test_is_one_endpoint_for_each_owner_and_address(self) -> None:
        farm.kind()
        ann, bob = farm.user("ann"), farm.user("bob")
        for owner in (ann, ann, bob, None, None):
            farm.submit(1, owner=owner, callback_url="https://hooks.example/a")
        assert Endpoint.objects.count() == 3
        assert Callback.objects.count() == 5
        assert all(one.secrets.count() == 1 for one in Endpoint.objects.all())

    @pytest.mark.parametrize("is_somebodys", [True, False])
    def test_is_one_of_so_many_of_an_operator_too_and_of_nobody(self, settings: Settings, is_somebodys: bool) -> None:
        settings.OUTBOX = {**settings.OUTBOX, "ENDPOINTS_PER_OWNER": 1}
        farm.kind()
        owner = User.objects.create_superuser("root") if is_somebodys else None
        for n in range(50):
            endpoint(f"https://hooks.example/{n}", owner=owner, is_callback=True)
        farm.submit(1, owner=owner, callback_url="https://hooks.example/49")
        with pytest.raises(outbox.OutboxError, match="There are 50 endpoints"):
            farm.submit(1, owner=owner, callback_url="https://hooks.example/50")

    def test_makes_room_once_its_jobs_have_ended_and_its_messages_are_gone(self, settings: Settings) -> None:
        settings.OUTBOX = {**settings.OUTBOX, "ENDPOINTS_PER_OWNER": 1}
        farm.kind()
        ann = farm.user("ann")
        [job] = farm.submit(1, owner=ann, callback_url="https://hooks.example/1")
        Endpoint.objects.update(created_at=_LONG_AGO)
        assert retained() == 0  # its job waits
        jobs.cancel(job.pk, by=ann)
        assert retained() == 0  # its message does
        with pytest.raises(outbox.OutboxError, match="There are 1 endpoints"):
            farm.submit(1, owner=ann, callback_url="https://hooks.example/2")
        Message.objects.update(status="delivered", next_attempt_at=None, ended_at=_LONG_AGO)
        assert retained() == 1
        farm.submit(1, owner=ann, callback_url="https://hooks.example/2")
        assert [one.url for one in Endpoint.objects.all()] == ["https://hooks.example/2"]
        assert retained() == 0  # it is new

    def test_is_held_by_a_job_that_was_lost_until_that_ends(self) -> None:
        farm.kind(max_attempts=2)
        farm.submit(1, callback_url="https://hooks.example/a")
        lost = farm.claim_one(farm.worker())
        farm.lose(lost)
        assert messages(Endpoint.objects.get())[0][0] == "job.lost"
        assert (farm.retain(ADDRESSES), Callback.objects.count()) == (0, 1)
        jobs.cancel(lost.id, by=None)
        assert (farm.retain(ADDRESSES), Callback.objects.count()) == (1, 0)

    def test_of_a_job_whose_end_nobody_asked_for_is_held_no_longer(self) -> None:
        """Where every endpoint is disabled nothing is recorded; nor was anything forgotten by farms of before."""
        farm.kind()
        [job] = farm.submit(1, callback_url="https://hooks.example/a")
        Endpoint.objects.update(status="disabled", note=GONE, created_at=_LONG_AGO)
        jobs.cancel(job.pk, by=None)
        assert not Event.objects.exists()
        farm.retain()
        farm.retain()
        assert (Callback.objects.count(), Endpoint.objects.count()) == (0, 0)

    def test_that_nobody_needs_is_looked_for_once_however_many_jobs_run(self) -> None:
        """Without statistics each of 100,000 endpoints was looked for among all callbacks: 30 s were not enough."""
        for number in range(20):
            row = endpoint(f"https://hooks.example/{number}", name="callback x", events=["job.*"], is_callback=True)
            outbox.call_back([number], row.pk)
        query, seen = crons.UNUSED.query, []
        with farm.plans_without("hashjoin", "mergejoin"), connection.cursor() as cursor:
            cursor.execute("EXPLAIN (ANALYZE, FORMAT JSON) " + (sql := query.sql_with_params())[0], sql[1])
            plans = [cursor.fetchone()[0][0]["Plan"]]
        while plans:
            plans += (plan := plans.pop()).get("Plans", [])
            seen += [plan["Actual Loops"]] if plan.get("Relation Name") == "outbox_callback" else []
        assert seen == [1]

    @pytest.mark.parametrize(
        "act",
        [
            lambda row, by: outbox.rotate(row.pk, by=by),
            lambda row, by: outbox.disable(row.pk, by=by),
            lambda row, by: outbox.change(row.pk, outbox.Wanted(name="mine", url=row.url), by=by),
        ],
        ids=["rotated", "disabled", "changed"],
    )
    def test_that_a_person_has_set_up_stays(self, act: Callable[[Endpoint, User], Any]) -> None:
        farm.kind()
        ann = farm.user("ann")
        [job] = farm.submit(1, owner=ann, callback_url="https://hooks.example/a")
        act(Endpoint.objects.get(), ann)
        jobs.cancel(job.pk, by=ann)
        Message.objects.all().delete()
        Callback.objects.all().delete()  # as the retention does when its job has ended
        Endpoint.objects.update(created_at=_LONG_AGO)
        assert retained() == 0

    def test_that_a_submit_uses_at_this_moment_stays(self) -> None:
        farm.kind()
        row = endpoint("https://hooks.example/a", name="callback x", events=["job.*"], is_callback=True)
        Endpoint.objects.update(created_at=_LONG_AGO)
        _, removed = farm.meanwhile(lambda: farm.submit(1, callback_url=row.url), retained)
        assert (removed, Callback.objects.get().endpoint_id) == (0, row.pk)
        assert retained() == 0
        Callback.objects.all().delete()
        assert retained() == 1

    @pytest.mark.parametrize("url", ["https://other.example/", "http://127.0.0.1/", "ftp://hooks.example/"])
    def test_to_a_host_that_is_not_allowed_stores_nothing(self, url: str) -> None:
        farm.kind()
        with pytest.raises(outbox.OutboxError):
            farm.submit(2, callback_url=url)
        assert not Job.objects.exists()

    def test_is_off_unless_the_operator_names_hosts(self, settings: Settings) -> None:
        settings.OUTBOX = {**settings.OUTBOX, "CALLBACK_HOSTS": ()}
        farm.kind()
        with pytest.raises(outbox.OutboxError, match="OUTBOX_CALLBACK_HOSTS"):
            farm.submit(1, callback_url="https://hooks.example/a")


def test_where_nobody_listens_an_end_asks_the_database_nothing_more(work: jobs.ClaimedJob) -> None:
    with CaptureQueriesContext(connection) as captured:
        farm.succeed(worker(), work)
    assert not [query["sql"] for query in captured.captured_queries if "outbox." in query["sql"]]
    assert events() == []


def test_users_take_their_endpoints_along() -> None:
    ann = User.objects.create_user("ann")
    endpoint(owner=ann)
    ann.delete()
    assert not Endpoint.objects.exists()
