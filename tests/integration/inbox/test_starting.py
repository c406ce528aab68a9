"""Rules: a delivery starts one job of each that it meets, whatever crashes, comes twice or is replayed."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry

import webhooks
from jobs import operations as jobs
from jobs.models import Job
from postgres.connections import released
from scheduling import operations as scheduling
from tests import emptying, farm
from tests.integration.inbox.support import keep_one, pass_time, receive
from tests.integration.inbox.test_crashes import everywhere
from webhooks import operations
from webhooks.domain.filters import Filter
from webhooks.domain.names import Source
from webhooks.errors import CannotStart, NotFound
from webhooks.handlers import rules as declared
from webhooks.models import Delivery, JobStart, Rule
from webhooks.operations import process
from webhooks.queries import inbox

pytestmark = pytest.mark.usefixtures("transactional_db")
Register = Callable[[str, str, Any], None]
BODY = {"ref": "refs/heads/main", "repository": {"full_name": "ada/engine", "id": 12}}
PAYLOAD = {"repo": "{{ body.repository.full_name }}", "id": "{{ body.repository.id }}"}


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Iterator[None]:
    """Only the rules of the test, and no job of another."""
    monkeypatch.setattr(declared, "_declared", [])
    farm.kind("deploy")
    yield
    emptying.empty()


def rule(**fields: Any) -> Rule:
    given = {
        "name": "deploy main",
        "source": "github",
        "event": "probe",
        "kind": "deploy",
        "payload": PAYLOAD,
    }
    return Rule.objects.create(**given | fields)


def processed(document: Any = BODY, *, event_type: str = "probe", **options: Any) -> Delivery:
    delivery = receive(document, event_type=event_type, **options)
    scheduling.run_due()
    delivery.refresh_from_db()
    return delivery


def replayed(delivery: Delivery, **options: Any) -> None:
    operations.replay(delivery.pk, **options)
    scheduling.run_due()


def payloads() -> list[Any]:
    return [job.body.payload for job in Job.objects.select_related("body").order_by("pk")]


def starts() -> list[tuple[str, int, str, bool]]:
    rows = JobStart.objects.order_by("pk")
    return [(row.rule_name, row.round, row.outcome, row.job_id is not None) for row in rows]


STARTED = ("deploy main", 1, "started", True)


class TestARule:
    def test_starts_a_job_with_what_the_delivery_has(self) -> None:
        owner = farm.user("ada")
        kept = rule(owner=owner)
        delivery = processed()
        job = Job.objects.get()
        assert (job.kind, job.queue, job.owner_id, job.status) == ("deploy", "deploy", owner.pk, "pending")
        assert payloads() == [{"repo": "ada/engine", "id": 12}]
        start = JobStart.objects.get()
        assert (start.delivery_id, start.job_id, start.rule_id, start.kind) == (
            delivery.pk, job.pk, kept.pk, "deploy",
        )  # fmt: skip
        assert starts() == [STARTED]

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

    def test_starts_none_for_an_attempt_that_failed_and_one_when_it_is_processed(
        self, handle: Register
    ) -> None:
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

    def test_even_where_nothing_but_the_row_says_that_it_was_started(self) -> None:
        """As after a restore in parts: the delivery waits again, and what it started is there."""
        rule()
        delivery = processed()
        Delivery.objects.update(status="received")
        process(delivery=delivery.pk)
        assert Delivery.objects.get().tries == 2
        assert (starts(), Job.objects.count()) == ([STARTED], 1)


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


class TestARuleThatFails:
    @pytest.mark.parametrize(
        ("fields", "sentence"),
        [
            ({"kind": "gone"}, "No kind of job is called 'gone'"),
            ({"queue": "nowhere"}, "There is no queue 'nowhere'"),
            ({"payload": "{{ body.nothing }}"}, "The delivery has no body.nothing"),
            ({"payload": ["{{ body }}"] * 50_000}, "more than"),
            ({"payload": "{{ nobody }}"}, "The rule cannot be kept"),
            ({"filter": {"body.ref": {"like": "x"}}}, "KeyError"),
            ({"unique_key": "{{ body }}" * 20}, "unique_key"),
        ],
    )
    def test_costs_the_delivery_nothing_and_says_why(self, fields: dict[str, Any], sentence: str) -> None:
        rule(name="fine")
        rule(**fields)
        delivery = processed()
        assert (delivery.status, delivery.note) == ("ignored", "nothing handles this type of event")
        assert [row[:3] for row in starts()] == [("fine", 1, "started"), ("deploy main", 1, "failed")]
        assert sentence in str(JobStart.objects.get(outcome="failed").error)

    def test_has_its_job_started_once_it_is_mended(self) -> None:
        boss = farm.user("ada")
        rule(kind="later")
        processed()
        [start] = JobStart.objects.all()
        again = operations.start_again(start.pk, by=boss)
        assert (again.outcome, Job.objects.count()) == ("failed", 0)
        farm.kind("later")
        again = operations.start_again(start.pk, by=boss)
        assert (again.outcome, again.error, again.job_id) == ("started", None, Job.objects.get().pk)
        with pytest.raises(CannotStart, match=f"started job #{again.job_id}"):
            operations.start_again(start.pk, by=boss)
        assert Job.objects.count() == 1
        told = [entry.get_change_message() for entry in LogEntry.objects.order_by("pk")]
        assert told == [
            "Tried to start the job of the rule deploy main again",
            f"Started the job of the rule deploy main again: #{again.job_id}",
        ]

    def test_cannot_start_it_without_its_rule(self) -> None:
        rule(kind="gone")
        processed()
        Rule.objects.all().delete()
        with pytest.raises(CannotStart, match="its rule is gone"):
            operations.start_again(JobStart.objects.get().pk)
        with pytest.raises(NotFound):
            operations.start_again(JobStart.objects.get().pk + 1)

    def test_of_a_person_who_was_switched_off_starts_nothing(self) -> None:
        owner = farm.user("ada")
        rule(owner=owner)
        owner.is_active = False
        owner.save()
        processed()
        assert "nobody who may log in is called ada" in str(JobStart.objects.get().error)

    def test_of_a_person_has_the_rights_of_that_person(self) -> None:
        farm.kind("elsewhere")
        rule(owner=farm.user("ada"), priority=50)
        rule(name="queue", owner=farm.user("bob"), queue="elsewhere")
        processed()
        assert {row[2] for row in starts()} == {"failed"}
        errors = " ".join(JobStart.objects.values_list("error", flat=True))
        assert "priority" in errors
        assert "queue" in errors


class TestAUniqueKey:
    def test_has_a_job_that_waits_stand_for_the_next_delivery(self) -> None:
        rule(unique_key="deploy {{ body.repository.id }}")
        processed()
        processed({**BODY, "after": "2"}, delivery_id="d-2")
        [job] = Job.objects.all()
        assert job.unique_key == "deploy 12"
        assert list(JobStart.objects.order_by("pk").values_list("outcome", "job_id")) == [
            ("started", job.pk),
            ("skipped", job.pk),
        ]
        jobs.cancel(job.pk, by=None)
        operations.start_again(JobStart.objects.get(outcome="skipped").pk)
        assert [row[2] for row in starts()] == ["started", "started"]


class TestARuleInCode:
    def test_starts_a_job_by_a_template(self) -> None:
        farm.user("ada")
        webhooks.on(
            "github", "probe", kind="deploy", payload=PAYLOAD, owner="ada", priority=90, queue="deploy"
        )
        processed()
        [job] = Job.objects.all()
        assert (job.owner.username, job.priority, payloads()) == (
            "ada",
            90,
            [{"repo": "ada/engine", "id": 12}],
        )
        assert starts() == [("github probe deploy", 1, "started", True)]

    def test_starts_a_job_with_what_its_function_says_or_none(self) -> None:
        @webhooks.on("github", "probe", kind="deploy", name="by function")
        def deploy(event: webhooks.Event) -> Any:
            return {"ref": event.body["ref"]} if event.body["ref"].endswith("main") else None

        processed()
        processed({"ref": "refs/heads/other"}, delivery_id="d-2")
        assert payloads() == [{"ref": "refs/heads/main"}]
        assert starts() == [("by function", 1, "started", True)]

    def test_that_raises_is_a_start_that_failed_and_is_done_again(self) -> None:
        broken = [True]

        @webhooks.on("github", "probe", kind="deploy")
        def deploy(event: webhooks.Event) -> Any:
            farm.user("by the rule")
            if broken:
                raise ValueError("ours is broken")
            return {}

        assert processed().status == "ignored"
        [start] = JobStart.objects.all()
        assert (start.outcome, start.error) == ("failed", "ValueError: ours is broken")
        assert not farm.User.objects.filter(username="by the rule").exists()
        broken.clear()
        assert operations.start_again(start.pk).outcome == "started"
        assert payloads() == [{}]


class TestRetention:
    def test_of_deliveries_takes_the_links_and_leaves_the_jobs(self) -> None:
        rule()
        delivery = processed()
        Delivery.objects.update(received_at=delivery.received_at - timedelta(days=100))
        assert inbox.forget(older_than=timedelta(days=90), sources=[Source.GITHUB], limit=10) == 1
        assert (JobStart.objects.count(), Job.objects.count()) == (0, 1)

    def test_of_jobs_leaves_what_keeps_a_delivery_from_starting_a_second_one(self) -> None:
        rule()
        delivery = processed()
        jobs.cancel(Job.objects.get().pk, by=None)
        Job.objects.all().delete()
        replayed(delivery)
        Delivery.objects.update(status="received", starts_jobs=True)
        process(delivery=delivery.pk)
        assert (starts(), Job.objects.count()) == ([STARTED], 0)
