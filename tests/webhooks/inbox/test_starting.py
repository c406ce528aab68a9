"""Rules: a delivery starts one job of each that it meets, whatever crashes, comes twice or is replayed."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User

import webhooks
from jobs import operations as jobs
from jobs.models import FlowTemplate, Job, Signal, Worker
from postgres import transactions
from postgres.connections import released
from scheduling import operations as scheduling
from tests import emptying, farm
from tests.jobs.flows.test_signals import suspend
from tests.webhooks.inbox.starts import BODY, STARTED, payloads, processed, replayed, rule, starts
from tests.webhooks.inbox.support import keep_one, pass_time, pending, reading_by_index, receive, vacuum
from tests.webhooks.inbox.test_crashes import everywhere
from webhooks import operations
from webhooks.domain.deliveries import Filter, Source
from webhooks.models import Delivery, JobStart
from webhooks.operations import process

pytestmark = pytest.mark.usefixtures("alone")
Register = Callable[[str, str, Any], None]


@pytest.fixture
def collisions(monkeypatch: pytest.MonkeyPatch) -> list[BaseException]:
    """What mutations collided by, as long as the test runs."""
    collided, found = transactions.collided, []

    def noting(error: BaseException) -> bool:
        found.append(error)
        return collided(error)

    monkeypatch.setattr(transactions, "collided", noting)
    return found


def process_side_by_side() -> None:
    """Run what is scheduled, four at a time, in connections like a mutation cluster's."""

    def work(run: Any) -> None:
        with released(), reading_by_index():
            process(**run.args)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, pending()))


def asking(worker: Worker, owner: User | None) -> jobs.ClaimedJob:
    """A job that the worker holds."""
    jobs.submit("ask", {}, owner=owner)
    return farm.claim_one(worker)


class TestARule:
    def test_starts_a_job_with_what_the_delivery_has(self) -> None:
        owner = farm.user("ada")
        kept = rule(owner=owner)
        delivery = processed()
        job = Job.objects.get()
        assert (job.kind, job.queue, job.owner_id, job.status) == ("deploy", "deploy", owner.pk, "pending")
        assert payloads() == [{"repo": "ada/engine", "id": 12}]
        start = JobStart.objects.get()
        assert (start.delivery_id, start.job_id, start.rule_id, start.kind) == (delivery.pk, job.pk, kept.pk, "deploy")
        assert starts() == [STARTED]

    def test_starts_a_flow_template_with_what_the_delivery_has_once(self) -> None:
        jobs = [
            {"name": "a", "kind": "deploy", "payload": "{{ repo }}"},
            {"name": "b", "kind": "deploy", "after": ["a"]},
        ]
        FlowTemplate.objects.create(name="release", placeholders={"repo": None, "id": 1}, jobs=jobs)
        owner = farm.user("ada")
        rule(kind="", flow_template="release", owner=owner)
        delivery = processed()
        first, second = Job.objects.whole().order_by("pk")
        assert (first.payload, first.owner, first.flow_id) == ("ada/engine", owner, second.flow_id)
        start = JobStart.objects.get()
        assert (start.delivery_id, start.job_id, start.kind) == (delivery.pk, first.pk, "release")
        replayed(delivery)
        assert Job.objects.count() == 2
        FlowTemplate.objects.all().delete()
        processed({**BODY, "n": 2}, delivery_id="d-2")
        assert JobStart.objects.latest("pk").error == "There is no flow template 'release'."
        assert operations.broken_rules() == {"deploy main": "Its job: There is no flow template 'release'."}

    def test_of_a_flow_template_says_nothing_that_its_jobs_say(self) -> None:
        FlowTemplate.objects.create(name="release", placeholders={"repo": None}, jobs=[{"name": "a", "kind": "deploy"}])
        for fields, why in (
            ({"kind": "deploy"}, "one of them"),
            ({"kind": "", "unique_key": "k"}, "of their own"),
            ({"kind": "", "payload": {"repository": "x"}}, "no placeholder 'repository'"),
            ({"kind": "", "payload": "{{ body }}"}, "is to be an object"),
        ):
            row = rule(name=why, **{"payload": {"repo": "x"}, "flow_template": "release"} | fields)
            assert why in operations.broken_rules()[why], fields
            row.delete()

    def test_sends_a_signal_to_who_waits_for_what_the_delivery_is_about_once(self) -> None:
        """Neither a replay nor a second rule for the same thing lets a job go on twice."""
        farm.kind("ask", queue="ask")
        worker, owner = farm.worker("asks", "ask"), farm.user("ada")
        waiting = [asking(worker, one) for one in (owner, None)]
        for job in waiting:
            suspend(worker, job, signal="pushed", signal_key="ada/engine 12")
        key = "{{ body.repository.full_name }} {{ body.repository.id }}"
        row = rule(kind="", signal="pushed", signal_key=key, owner=owner)
        assert operations.broken_rules() == {}
        delivery = processed()
        assert operations.try_rule(row.pk, delivery=delivery.pk).signal_key == "ada/engine 12"
        [again] = jobs.claim(worker, limit=9)
        assert (again.id, again.signal and again.signal.data) == (waiting[0].id, {"repo": "ada/engine", "id": 12})
        start = JobStart.objects.get()
        assert (start.outcome, start.job_id, start.kind, start.error) == ("sent", None, "pushed", None)
        replayed(delivery)
        suspend(worker, again, signal="pushed", signal_key="ada/engine 12")
        assert jobs.claim(worker, limit=9) == []
        assert Signal.objects.filter(job=None).count() == 1
        processed({**BODY, "repository": {"full_name": " "}, "n": 2}, delivery_id="d-2")
        assert "body.repository.id" in str(JobStart.objects.latest("pk").error)

    def test_of_a_signal_says_by_which_key_and_nothing_of_a_job(self) -> None:
        for fields, why in (
            ({"signal_key": ""}, "by which it finds who waits"),
            ({"kind": "deploy"}, "one of them"),
            ({"unique_key": "k"}, "of their own"),
            ({"signal": " "}, "printable characters"),
            ({"signal_key": "{{ nothing.there }}"}, "nothing.there"),
        ):
            row = rule(name=why, **{"kind": "", "signal": "pushed", "signal_key": "k"} | fields)
            assert why in operations.broken_rules()[why], fields
            row.delete()

    def test_gives_its_job_tags_of_what_the_delivery_has(self) -> None:
        rule(tags="github, repo:{{ body.repository.full_name }}")
        processed()
        assert Job.objects.get().tags == ["github", "repo:ada/engine"]

    def test_starts_it_for_events_that_nothing_handles_too(self, handle: Register) -> None:
        rule()
        delivery = processed()
        assert (delivery.status, Job.objects.count()) == ("ignored", 1)
        handle("github", "probe", lambda _: None)
        assert processed({**BODY, "n": 2}, delivery_id="d-2").status == "processed"
        assert Job.objects.count() == 2

    @pytest.mark.parametrize(
        "fields",
        [
            {"source": "jira"},
            {"event": "pull_request.*"},
            {"is_enabled": False},
            {"filter": {"body.ref": "refs/heads/other"}},
        ],
    )
    def test_starts_none_for_what_it_does_not_mean(self, fields: dict[str, Any]) -> None:
        rule(**fields)
        processed()
        assert starts() == []
        assert not Job.objects.exists()

    def test_has_the_body_as_payload_where_it_says_nothing_else(self) -> None:
        rule(payload="{{ body }}", event="*", filter={"body.ref": {"prefix": "refs/heads/"}})
        processed()
        assert payloads() == [BODY]

    def test_stands_beside_others(self) -> None:
        rule(queue="deploy", priority=7)
        rule(name="another")
        rule(name="third", filter={"body.ref": "x"})
        processed()
        assert [start[0] for start in starts()] == ["deploy main", "another"]
        assert sorted(Job.objects.values_list("priority", flat=True)) == [0, 7]

    def test_of_telemetry_starts_jobs_with_the_drain(self) -> None:
        rule(source="sandbox_telemetry", event="batch", payload={"first": "{{ body.items.0.outcome }}"})
        receive([{"outcome": "ok"}], source=Source.SANDBOX_TELEMETRY, event_type="batch")
        operations.drain_sandbox_queue()
        assert payloads() == [{"first": "ok"}]

    def test_starts_none_for_an_attempt_that_failed_and_one_when_it_is_processed(self, handle: Register) -> None:
        def fails(_: webhooks.Event) -> None:
            raise RuntimeError("no luck")

        rule()
        handle("github", "probe", fails)
        delivery = processed()
        for _ in range(4):
            pass_time()
        delivery.refresh_from_db()
        assert (delivery.status, Job.objects.count()) == ("dead", 0)
        handle("github", "probe", lambda _: None)
        replayed(delivery)
        assert starts() == [STARTED]


class TestExactlyOne:
    def test_for_a_delivery_that_comes_again(self) -> None:
        rule()
        processed()
        assert keep_one(BODY).verdict == "duplicate"
        assert keep_one(BODY, delivery_id="another").verdict == "duplicate"
        pass_time()
        assert Job.objects.count() == 1

    def test_for_a_delivery_whose_processing_is_killed_before_any_of_its_statements(self) -> None:
        def before() -> None:
            emptying.empty()
            farm.kind("deploy")
            rule()
            receive(BODY)

        def after() -> None:
            pass_time()  # what a process that died left is due again
            assert (starts(), Job.objects.count()) == ([STARTED], 1)

        assert everywhere(scheduling.run_due, before=before, after=after) > 10

    def test_for_a_delivery_that_eight_process_at_once(self) -> None:
        rule()
        delivery = receive(BODY)

        def work(_: int) -> None:
            with released():
                process(delivery=delivery.pk)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
        assert (starts(), Job.objects.count()) == ([STARTED], 1)

    def test_for_deliveries_side_by_side_which_do_not_collide(self, collisions: list[BaseException]) -> None:
        """In connections like a mutation cluster's, on a table so small that others would read it as a whole."""
        vacuum(Delivery)
        rule()
        for n in range(40):
            receive({**BODY, "n": n}, delivery_id=f"d-{n}")
        process_side_by_side()
        assert (Job.objects.count(), collisions) == (40, [])

    def test_even_where_nothing_but_the_row_says_that_it_was_started(self, caplog: pytest.LogCaptureFixture) -> None:
        """As after a restore in parts: the delivery waits again, and what it started is there. That is no error."""
        rule()
        delivery = processed()
        Delivery.objects.update(status="received")
        process(delivery=delivery.pk)
        assert Delivery.objects.get().tries == 2
        assert (starts(), Job.objects.count()) == ([STARTED], 1)
        assert "put aside" not in caplog.text


class TestAReplay:
    def test_starts_no_job_again(self) -> None:
        rule()
        delivery = processed()
        replayed(delivery)
        operations.replay_matching(Filter())
        for _ in range(3):
            pass_time()
        assert Delivery.objects.get().tries == 3
        assert (starts(), Job.objects.count()) == ([STARTED], 1)

    def test_starts_none_of_a_rule_that_was_made_since(self) -> None:
        """A handler was mended, and ten thousand deliveries are replayed: nobody expects as many jobs."""
        delivery = processed()
        rule()
        replayed(delivery)
        assert starts() == []

    def test_that_is_asked_for_it_starts_them_again_and_counts(self) -> None:
        kept = rule()
        delivery = processed()
        replayed(delivery, with_jobs=True, by=farm.user("ada"))
        replayed(delivery)
        assert starts() == [STARTED, ("deploy main", 2, "started", True)]
        rule(name="made since")
        kept.delete()
        operations.replay_matching(Filter(), with_jobs=True)
        for _ in range(3):
            pass_time()
        assert starts()[2:] == [("made since", 3, "started", True)]
        assert Job.objects.count() == 3
        assert LogEntry.objects.get().get_change_message().endswith("with its jobs, which was ignored")

    @pytest.mark.parametrize("with_jobs", [False, True])
    def test_has_deliveries_side_by_side_not_collide(self, collisions: list[BaseException], *, with_jobs: bool) -> None:
        vacuum(Delivery)
        rule()
        deliveries = [processed({**BODY, "n": n}, delivery_id=f"d-{n}") for n in range(40)]
        for delivery in deliveries:
            operations.replay(delivery.pk, with_jobs=with_jobs)
        process_side_by_side()
        assert (Delivery.objects.filter(tries=2).count(), collisions) == (40, [])
        assert Job.objects.count() == (80 if with_jobs else 40)

    def test_that_is_asked_for_it_holds_through_attempts_that_fail(self, handle: Register) -> None:
        luck: list[bool] = []

        def sometimes(_: webhooks.Event) -> None:
            if not luck:
                raise RuntimeError("no luck")

        rule()
        luck.append(True)
        handle("github", "probe", sometimes)
        delivery = processed()
        luck.clear()
        replayed(delivery, with_jobs=True)
        luck.append(True)
        pass_time()
        assert [start[1:3] for start in starts()] == [(1, "started"), (2, "started")]

    def test_that_failed_and_is_replayed_starts_none_either(self, handle: Register) -> None:
        """The first time is what counts, however often it is tried after that."""
        luck = [True]

        def sometimes(_: webhooks.Event) -> None:
            if not luck:
                raise RuntimeError("no luck")

        rule()
        handle("github", "probe", sometimes)
        delivery = processed()
        luck.clear()
        replayed(delivery)
        luck.append(True)
        keep_one(BODY)  # its sender sends it again, which has a failed one processed anew
        pass_time()
        assert Delivery.objects.get().status == "processed"
        assert Job.objects.count() == 1
