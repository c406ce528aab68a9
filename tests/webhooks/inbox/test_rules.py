"""Rules that fail, that skip, and that an app declares in its code; and what retention leaves."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, User
from django.db import connection

import webhooks
from jobfarm import health, message_health
from jobs import operations as jobs
from jobs.models import Job
from scheduling import operations as scheduling
from scheduling.models import Due
from tests import farm
from tests.webhooks.inbox.starts import BODY, PAYLOAD, STARTED, payloads, processed, replayed, rule, starts
from tests.webhooks.inbox.support import receive
from webhooks import operations
from webhooks.errors import CannotStart, NotFound
from webhooks.models import Delivery, JobStart, Rule
from webhooks.operations import process

pytestmark = pytest.mark.usefixtures("alone")


class TestARuleThatFails:
    @pytest.mark.parametrize(
        ("fields", "sentence"),
        [
            ({"kind": "gone"}, "No kind of job is called 'gone'"),
            ({"queue": "nowhere"}, "There is no queue 'nowhere'"),
            ({"payload": "{{ body.nothing }}"}, "There is no body.nothing"),
            ({"payload": ["{{ body }}"] * 50_000}, "more than"),
            ({"payload": "{{ nobody }}"}, "begins with none of source"),
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

    def test_costs_the_others_nothing_where_not_even_that_can_be_kept(self, caplog: pytest.LogCaptureFixture) -> None:
        rule(name="spoilt", kind="gone\x01")
        Rule.objects.filter(name="spoilt").update(name="x" * 95)
        with connection.cursor() as cursor:
            cursor.execute(
                "ALTER TABLE webhooks_jobstart ADD CONSTRAINT of_a_test CHECK (length(rule_name) < 90) NOT VALID"
            )
            try:
                rule(name="fine")
                delivery = processed()
            finally:
                cursor.execute("ALTER TABLE webhooks_jobstart DROP CONSTRAINT of_a_test")
        assert delivery.status == "ignored"
        assert [row[:3] for row in starts()] == [("fine", 1, "started")]
        assert "failed, and was put aside" in caplog.text

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
        entries = [entry.get_change_message() for entry in LogEntry.objects.order_by("pk")]
        assert entries == [
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
        assert "its owner ada does not exist or may not log in" in str(JobStart.objects.get().error)

    def test_of_a_person_has_the_rights_of_that_person(self) -> None:
        farm.kind("elsewhere")
        rule(owner=farm.user("ada"), priority=50)
        rule(name="queue", owner=farm.user("bob"), queue="elsewhere")
        processed()
        assert {row[2] for row in starts()} == {"failed"}
        errors = " ".join(str(row.error) for row in JobStart.objects.all())
        assert "priority" in errors
        assert "queue" in errors


class TestHealth:
    def test_counts_what_was_not_started_and_names_rules_that_can_start_nothing(self) -> None:
        rule()
        rule(name="broken", kind="gone")
        rule(name="off", kind="gone", is_enabled=False)
        webhooks.on("github", "push", kind="nowhere", name="in code")
        processed()
        assert operations.health().unstarted == 1
        assert list(operations.broken_rules()) == ["in code", "broken"]
        sentences = [finding.sentence for finding in [*health._rules(), *message_health.inbox()]]
        assert (
            "The rule broken starts no job when a webhook comes. Its kind: No kind of job is called 'gone': declare it "
            "in code, or create it with the command `create_kind`."
        ) in sentences
        assert "Jobs that webhooks of the last day should have started but did not: 1." in sentences


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

    @pytest.mark.parametrize("fields", [{"on_conflict": "after"}, {"debounce": {"quiet": 60, "at_most": 120}}])
    def test_has_the_last_push_run_after_the_deployment_that_is_under_way(self, fields: dict[str, Any]) -> None:
        rule(unique_key="deploy {{ body.repository.id }}", payload="{{ body.after }}", **fields)
        processed({**BODY, "after": "1"})
        first = Job.objects.get()
        farm.forgive(first)
        claimed = farm.claim_one(me := farm.worker("deploys", "deploy"))
        for n in "23":
            processed({**BODY, "after": n}, delivery_id=f"d-{n}")
        second = Job.objects.exclude(pk=first.pk).get()
        assert list(JobStart.objects.order_by("pk").values_list("outcome", "job_id")) == [
            ("started", first.pk), ("started", second.pk), ("started", second.pk)
        ]  # fmt: skip
        farm.succeed(me, claimed)
        farm.forgive(second)
        assert farm.claim_one(me).payload == "3"

    @pytest.mark.parametrize("has_ended", [False, True])
    def test_starts_nothing_for_a_push_that_is_processed_after_a_later_one(self, has_ended: bool) -> None:
        """Its first attempt failed, say: what was pushed last is what is deployed last."""
        rule(unique_key="deploy {{ body.repository.id }}", payload="{{ body.after }}", on_conflict="after")
        receive({**BODY, "after": "1"}, event_type="probe")
        later = farm.now() + timedelta(hours=1)
        Due.objects.update(run_at=later, next_at=later)
        processed({**BODY, "after": "2"}, delivery_id="d-2")
        if has_ended:
            farm.succeed(me := farm.worker("deploys", "deploy"), farm.claim_one(me))
        Due.objects.update(run_at=farm.now(), next_at=farm.now())
        scheduling.run_due()
        assert payloads() == ["2"]
        assert [row[2] for row in starts()] == ["started", "skipped"]
        replayed(Delivery.objects.earliest("pk"), with_jobs=True)
        assert payloads()[-1] == "1", "a person says so"


class TestARuleInCode:
    def test_starts_a_job_by_a_template(self) -> None:
        farm.user("ada")
        webhooks.on("github", "probe", kind="deploy", payload=PAYLOAD, owner="ada", priority=90, queue="deploy")
        processed()
        [job] = Job.objects.all()
        assert (job.owner.username, job.priority, payloads()) == ("ada", 90, [{"repo": "ada/engine", "id": 12}])
        assert starts() == [("github probe deploy", 1, "started", True)]

    def test_starts_a_job_with_what_its_function_says_or_none(self) -> None:
        @webhooks.on("github", "probe", kind="deploy", name="by function")
        def deploy(event: webhooks.Event) -> Any:
            return {"ref": event.body["ref"]} if event.body["ref"].endswith("main") else None

        processed()
        processed({"ref": "refs/heads/other"}, delivery_id="d-2")
        assert payloads() == [{"ref": "refs/heads/main"}]
        assert starts() == [("by function", 1, "started", True)]

    def test_sees_what_the_handlers_of_the_delivery_wrote(self, handle: Callable[..., None]) -> None:
        def write(_: webhooks.Event) -> None:
            Group.objects.create(name="by the handler")

        handle("github", "probe", write)

        @webhooks.on("github", "probe", kind="deploy")
        def deploy(_: webhooks.Event) -> Any:
            return list(Group.objects.values_list("name", flat=True))

        processed()
        assert payloads() == [["by the handler"]]

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
        assert not User.objects.filter(username="by the rule").exists()
        broken.clear()
        assert operations.start_again(start.pk).outcome == "started"
        assert payloads() == [{}]


class TestRetention:
    def test_of_deliveries_takes_the_links_and_leaves_the_jobs(self) -> None:
        rule()
        delivery = processed()
        Delivery.objects.update(received_at=delivery.received_at - timedelta(days=100))
        assert scheduling.retain(names=["deliveries"]) == {"deliveries": 1}
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
