"""A template, a wait or a signal that somebody broke in the database is its own fault alone."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.functions import Now
from django.test import Client

from jobs import operations
from jobs.models import Attempt, FlowTemplate, Job, Suspension, Worker
from jobs.operations import from_crons
from jobs.operations.set_aside import ASIDE
from scheduling import operations as scheduling, registry
from scheduling.models import Cron, ScheduledFunction
from tests import farm
from tests.doctor import named_errors
from tests.jobs.flows.test_children import parent_of
from tests.jobs.flows.test_signals import suspend, waiting

pytestmark = pytest.mark.django_db(transaction=True)
LONG: Final = "1" * 5000  # jsonb has numbers of any length, Python reads none of so many digits


@pytest.fixture
def worker() -> Worker:
    farm.kind()
    return farm.worker()


def spoil(statement: str, *params: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)


def claimed(worker: Worker) -> list[int]:
    return [job.id for job in operations.claim(worker, limit=9)]


class TestWhatComesWithAClaim:
    @staticmethod
    def fails_alone(worker: Worker, broken: int, whole: int) -> None:
        assert claimed(worker) == [whole]
        assert farm.status(broken) == "failed"
        error = Attempt.objects.filter(job=broken, outcome="failed").get().error
        assert "What came for it cannot be read: Exceeds the limit (4300 digits)" in error

    def test_a_signal_that_cannot_be_read_fails_its_job_and_those_behind_it_are_claimed(self, worker: Worker) -> None:
        broken, whole = waiting(worker), waiting(worker)
        for job in (broken, whole):
            operations.signal(job.id, "approved", 7, by=None)
        spoil("UPDATE jobs_signal SET data = %s WHERE job_id = %s", LONG, broken.id)
        self.fails_alone(worker, broken.id, whole.id)

    def test_a_checkpoint_that_cannot_be_read_does_so_too(self, worker: Worker) -> None:
        broken, whole = parent_of(worker), parent_of(worker)
        for job in (broken, whole):
            operations.checkpoint(worker, job.id, job.lease, 7)
            operations.release(worker, job.id, job.lease)
        spoil("UPDATE jobs_checkpoint SET value = %s WHERE job_id = %s", LONG, broken.id)
        self.fails_alone(worker, broken.id, whole.id)

    def test_and_the_result_of_what_it_comes_after(self, worker: Worker) -> None:
        first = operations.submit("work", {}).pk
        broken = operations.submit("work", {}, after=[first]).pk
        farm.succeed(worker, farm.claim_one(worker), 7)
        whole = operations.submit("work", {}).pk
        spoil("ALTER TABLE jobs_outcome DISABLE TRIGGER USER")
        spoil("UPDATE jobs_outcome SET result = %s WHERE job_id = %s", LONG, first)
        spoil("ALTER TABLE jobs_outcome ENABLE TRIGGER USER")
        self.fails_alone(worker, broken, whole)


class TestTheJanitor:
    @pytest.fixture
    def refuse(self) -> Iterator[Any]:
        """Have the database refuse that the wait of this job is over."""
        ASIDE.forget()

        def refuse(job_id: int) -> None:
            spoil(f"""
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'never'; END $$;
                CREATE TRIGGER refuse BEFORE UPDATE ON jobs_suspension FOR EACH ROW
                WHEN (OLD.job_id = {job_id} AND NEW.timed_out) EXECUTE FUNCTION refuse()""")

        yield refuse
        spoil("DROP FUNCTION IF EXISTS refuse CASCADE")
        ASIDE.forget()

    def test_ends_all_waits_that_are_over_but_the_one_that_cannot_be(self, worker: Worker, refuse: Any) -> None:
        first, broken, last = (waiting(worker, timeout_s=60) for _ in range(3))
        refuse(broken.id)
        Suspension.objects.update(until=Now() - timedelta(seconds=1))
        assert operations.sweep().expired == 2
        assert claimed(worker) == [first.id, last.id]
        assert f"The job {broken.id} is put aside: " in named_errors()
        assert operations.sweep().expired == 0


@pytest.mark.parametrize("schema", ["no JSON", "", "[", '"properties"', '{"properties": {"a": [1]}}', LONG])
def test_a_schema_that_is_none_leaves_its_jobs_page_a_field_for_json(worker: Worker, schema: str) -> None:
    ada = farm.user("ada")
    job = parent_of(worker, owner=ada)
    suspend(worker, job, signal="approved", schema={"properties": {"a": {"type": "string"}}})
    Suspension.objects.update(schema=schema)
    client = Client()
    client.force_login(ada)
    page = client.get(f"/jobs/{job.id}/")
    assert (page.status_code, 'name="signal-json"' in page.text) == (200, True)
    client.post(f"/jobs/{job.id}/signal/", {"signal-key": "form-1", "signal-json": "7"})
    assert claimed(worker) == [job.id]


class TestAFlowTemplate:
    @pytest.fixture
    def root(self) -> Client:
        client = Client()
        client.force_login(User.objects.create_superuser("root"))
        return client

    @pytest.fixture
    def _two(self) -> None:
        farm.kind()
        for name in ("broken", "whole"):
            FlowTemplate.objects.create(name=name, jobs=[{"name": "a", "kind": "work"}])

    @pytest.mark.usefixtures("_two")
    @pytest.mark.parametrize(
        ("column", "text"),
        [
            ("jobs", '"nonsense"'), ("jobs", "[]"), ("jobs", "[7]"), ("jobs", '[{"name": 7, "kind": []}]'),
            ("jobs", '[{"name": "a", "kind": "work", "after": ["a"]}]'), ("jobs", LONG), ("placeholders", "7"),
            ("placeholders", LONG),
        ],
    )  # fmt: skip
    def test_that_is_nonsense_fails_its_start_and_the_others_start(self, column: str, text: str, root: Client) -> None:
        spoil(f"UPDATE jobs_flowtemplate SET {column} = %s WHERE name = 'broken'", text)
        for name in ("broken", "whole"):
            function = registry.dotted_name(from_crons.start_flow)
            arguments: dict[str, Any] = {"template": name, "values": {}}
            Cron.objects.create(
                name=name, function=function, args=arguments, schedule="every 60 s", source="person", missed="once",
                overlap="skip", next_at=Now(),
            )  # fmt: skip
        assert len(scheduling.fire_due()) == 2
        scheduling.run_due()
        assert dict(ScheduledFunction.objects.values_list("cron_id", "status")) == {
            "broken": "failed", "whole": "success",
        }  # fmt: skip
        assert Job.objects.count() == 1
        assert root.get("/admin/jobs/flowtemplate/").status_code == 200
