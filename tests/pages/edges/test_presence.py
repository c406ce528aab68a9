"""What doctor, /health/ready and the overview say of processes that are missing and of workers with a wrong scope."""

import re
import uuid
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group, User
from django.db.models.functions import Now
from django.test import Client

from jobfarm import health, job_health, live_queries, presence
from jobfarm.findings import Finding, Level
from jobs import operations
from jobs.domain.presence import Part
from jobs.models import Process, Worker
from jobs.operations.workers import Presence
from scheduling.models import Cluster
from scheduling.operations import clusters
from scheduling.queries import functions
from scheduling.queries.functions import Report
from tests import farm
from tests.pages.edges.conftest import Browse, Farm

pytestmark = pytest.mark.django_db
UNHEARD = "A notification that the farm sent to itself did not arrive within 2 s."


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """What was found for another test is not what these read, nor the other way round."""
    live_queries.warnings.forget()
    yield
    live_queries.warnings.forget()


def findings(check: Callable[[], Iterable[Finding]]) -> list[tuple[Level, str]]:
    """The sentences of a check, and how bad they are; for how long somebody is silent is N."""
    return [(finding.level, re.sub(r"for \d+ s\.", "for N s.", finding.sentence)) for finding in check()]


def examined() -> list[tuple[Level, str]]:
    """What the doctor and the overview say, both the same. (No notification is heard within a test's transaction.)"""
    overview = [finding for finding in live_queries.warnings() if finding.sentence != UNHEARD]
    doctor = [finding for finding in health.examine(surroundings=list) if finding.level > Level.FINE]
    assert findings(lambda: overview) == findings(lambda: doctor)
    return findings(lambda: doctor)


def ready(check: str) -> object:
    """What /health/ready says of one thing; it can serve all the while."""
    answer = Client().get("/health/ready")
    assert answer.status_code == 200
    return answer.json()["checks"][check]


def report(part: Part, **columns: object) -> Process:
    """A process that has just reported, with these columns."""
    process = Presence(part=part)
    process.report()
    Process.objects.filter(pk=process.id).update(**columns)
    return Process.objects.get(pk=process.id)


def ago(seconds: float) -> object:
    """So many seconds before the database's now."""
    return Now() - timedelta(seconds=seconds)


class TestAFarmThatHasJustBeenStarted:
    def test_is_told_as_starting_and_as_nothing_worse(self, browse: Browse, little_farm: Farm) -> None:
        Worker.objects.update(last_seen_at=None)
        report(Part.WEB)
        found = health.examine(surroundings=list)  # no notification is heard from within a test's transaction
        assert [finding.sentence for finding in found if finding.level >= Level.WARNING] == []
        page = browse(little_farm.oscar).get("/").content.decode()
        assert "<strong>The farm is starting.</strong> No janitor has reported yet." in page
        assert "No cluster for mutations has reported yet." in page
        assert "No worker has reported yet." in page
        assert "no mutation is run" not in page
        assert ready("janitor") == {"status": "starting", "messages": ["No janitor has reported yet."]}
        assert ready("scheduler")["status"] == "starting"  # type: ignore[index]

    def test_is_told_what_it_lacks_once_that_could_be_there(self, little_farm: Farm) -> None:
        report(Part.WEB, started_at=ago(21))
        assert Level.STARTING not in [finding.level for finding in health.examine(surroundings=list)]
        assert ready("janitor") == {
            "status": "error",
            "messages": ["No janitor runs: leases that run out, and jobs that wait too long, are not ended."],
        }

    def test_is_told_of_what_has_come_within_seconds(self, browse: Browse, little_farm: Farm) -> None:
        report(Part.WEB)
        client = browse(little_farm.oscar)
        assert "No janitor" in client.get("/").content.decode()
        report(Part.JANITOR)
        farm.until(lambda: "No janitor" not in client.get("/").content.decode(), within_s=20, what="the new finding")


class TestWebProcesses:
    def test_of_which_none_is_there_are_missed_by_the_doctor(self) -> None:
        report(Part.JANITOR, started_at=ago(60))
        missing = "No web process runs: no page is served, and no worker's call is answered."
        assert findings(presence.web) == [(Level.ERROR, missing)]
        assert (Level.ERROR, missing) in examined()
        assert ready("web") == {"status": "error", "messages": [missing]}

    def test_of_which_one_is_silent_are_named_by_host_and_id_and_not_to_strangers(self) -> None:
        report(Part.WEB, started_at=ago(60))
        silent = report(Part.WEB, seen_at=ago(20))
        assert findings(presence.web) == [
            (Level.WARNING, "A web process has not reported for N s."), (Level.FINE, "1 web process runs."),
        ]  # fmt: skip
        [warning, _] = presence.web()
        assert f"pid {silent.pid} on {silent.host}" in warning.remedy
        answer = str(ready("web"))
        assert "'status': 'warning'" in answer
        assert "has not reported" in answer
        assert silent.host not in answer

    def test_that_were_replaced_are_not_told_of(self) -> None:
        report(Part.WEB, seen_at=ago(20), started_at=ago(90))
        report(Part.WEB, started_at=ago(18))
        assert findings(presence.web) == [(Level.FINE, "1 web process runs.")]
        assert [row.part for row in presence.rows()] == ["web"]

    def test_that_were_killed_are_forgotten_after_a_minute(self) -> None:
        report(Part.WEB)
        report(Part.WEB, seen_at=ago(61))
        assert findings(presence.web) == [(Level.FINE, "1 web process runs.")]

    def test_that_are_the_last_and_silent_are_an_error(self) -> None:
        report(Part.WEB, seen_at=ago(20), started_at=ago(90))
        assert findings(presence.web) == [(Level.ERROR, "A web process has not reported for N s.")]


class TestClusters:
    @pytest.mark.parametrize(("there", "missing"), [("mutations", "actions"), ("actions", "mutations")])
    def test_of_which_one_sort_is_missing_are_told_wherever_one_looks(self, there: str, missing: str) -> None:
        report(Part.WEB, started_at=ago(60))
        _cluster(there)
        sentence = f"No cluster for {missing} runs: no {missing[:-1]} is run, however long it has been due."
        assert (Level.ERROR, sentence) in examined()
        assert ready("scheduler") == {"status": "error", "messages": [sentence]}

    def test_that_froze_or_were_killed_are_missing_after_seconds(self) -> None:
        report(Part.WEB, started_at=ago(60))
        for role in ("mutations", "actions"):
            _cluster(role)
        assert ready("scheduler") == {"status": "ok"}
        Cluster.objects.filter(role="actions").update(last_seen_at=ago(20))
        assert "No cluster for actions runs" in str(ready("scheduler"))


def _cluster(role: str) -> None:
    """A cluster that has just reported."""
    cluster_id = uuid.uuid4()
    clusters.begin(cluster_id, role=role)
    assert functions.report(cluster_id, Report(workers=2, free=2, waits=False))


class TestWhatProcessesLoggedAsErrors:
    def test_is_named_by_the_doctor_and_on_the_overview_until_they_end_and_to_no_stranger(
        self, browse: Browse, little_farm: Farm
    ) -> None:
        janitor = report(Part.JANITOR, errors=["The lane 7 cannot be tidied"], pid=4711, host="gpu-box")
        report(Part.WEB, errors=["The lane 7 cannot be tidied"], pid=4711, host="gpu-box")
        _cluster("actions")
        Cluster.objects.update(errors=["django-q2's schedule broken cannot be read"])
        [finding] = presence.errors()
        assert finding.sentence == "Errors that processes logged in the last minutes: 2."
        assert " 4711 on gpu-box: The lane 7 cannot be tidied" in finding.remedy
        assert "cluster for actions " in finding.remedy
        assert finding.remedy.endswith(": django-q2's schedule broken cannot be read")
        assert "The lane 7 cannot be tidied" in browse(little_farm.oscar).get("/").content.decode()
        assert "lane 7" not in Client().get("/health/ready").content.decode()
        Process.objects.exclude(pk=janitor.pk).delete()
        Presence(part=Part.JANITOR, id=janitor.pk).end()
        Cluster.objects.update(ended_at=Now(), ending="stopped")
        assert list(presence.errors()) == []


class TestTheListOfProcesses:
    def test_shows_who_is_there_and_who_is_silent(self, browse: Browse, little_farm: Farm) -> None:
        report(Part.JANITOR, seen_at=ago(30), pid=4711)
        report(Part.WEB)
        Presence(part=Part.WEB).report()
        ended = Presence(part=Part.JANITOR)
        ended.report()
        ended.end()
        _cluster("actions")
        assert [(row.part, row.silent_s is None) for row in presence.rows()] == [
            ("web", True), ("web", True), ("janitor", False), ("cluster for actions", True),
        ]  # fmt: skip
        page = browse(little_farm.oscar).get("/").content.decode()
        section = page[page.index('id="processes-title"') :]
        assert re.search(r"silent for \d+ s", section)
        assert "4711" in section
        assert "cluster for actions" in section

    def test_is_the_operators_alone(self, browse: Browse, little_farm: Farm) -> None:
        assert "processes-title" not in browse(little_farm.ada).get("/").content.decode()


@pytest.fixture
def owners() -> tuple[User, User, Group]:
    """Ada and Bob, and a group in which Bob is."""
    group = Group.objects.create(name="studio")
    return farm.user("ada"), farm.user("bob", groups=[group]), group


class TestQueuesThatNobodyServes:
    SENTENCE = "Jobs are pending. No live worker serves the queue work."

    @pytest.fixture(autouse=True)
    def _kind(self) -> None:
        farm.kind()
        report(Part.WEB, started_at=ago(60))

    def test_are_those_whose_workers_owner_is_switched_off(self, owners: tuple[User, User, Group]) -> None:
        _, bob, _ = owners
        farm.submit(1, owner=bob)
        farm.worker("bobs", owner=bob)
        assert findings(job_health.queues) == []
        User.objects.filter(pk=bob.pk).update(is_active=False)
        assert findings(job_health.queues) == [(Level.WARNING, self.SENTENCE)]
        assert (Level.WARNING, "No live worker: nothing will run.") in findings(job_health.workers)

    def test_are_those_whose_workers_ask_for_other_queues(self) -> None:
        farm.kind("else")
        me = farm.worker("me", "work", "else")
        operations.claim(me, queues=["else"])
        farm.submit(1)
        assert findings(job_health.queues) == [(Level.WARNING, self.SENTENCE)]
        operations.claim(me, queues=["work"])
        farm.submit(1)
        assert findings(job_health.queues) == []

    def test_are_not_those_of_a_worker_that_asks_for_all(self) -> None:
        farm.kind("else")
        me = farm.worker("me", "work", "else")
        operations.claim(me, queues=["else"])
        operations.claim(me)
        farm.submit(1)
        assert findings(job_health.queues) == []


class TestQueuesWhoseWorkersHaveTheWrongScope:
    SENTENCE = "Jobs are pending in the queue work that none of its live workers may take."

    @pytest.fixture(autouse=True)
    def _kind(self) -> None:
        farm.kind()
        report(Part.WEB, started_at=ago(60))

    def test_are_found_wherever_one_looks(self, owners: tuple[User, User, Group]) -> None:
        ada, bob, _ = owners
        farm.submit(1, owner=ada)
        farm.worker("bobs", owner=bob)
        assert findings(job_health.queues) == [(Level.WARNING, self.SENTENCE)]
        assert ready("queues") == {"status": "warning", "messages": ["Queues with jobs that no live worker takes: 1."]}
        assert self.SENTENCE in [finding.sentence for finding in live_queries.warnings()]

    def test_are_none_with_one_worker_that_serves_everybody(self, owners: tuple[User, User, Group]) -> None:
        ada, bob, _ = owners
        farm.submit(1, owner=ada)
        farm.worker("bobs", owner=bob)
        farm.worker("all")
        assert findings(job_health.queues) == []
        assert ready("queues") == {"status": "ok"}

    def test_do_not_count_workers_of_an_owner_who_is_switched_off(self, owners: tuple[User, User, Group]) -> None:
        ada, bob, _ = owners
        farm.submit(1, owner=ada)
        farm.worker("hers", owner=ada)
        farm.worker("bobs", owner=bob)
        User.objects.filter(pk=ada.pk).update(is_active=False)
        assert findings(job_health.queues) == [(Level.WARNING, self.SENTENCE)]

    def test_are_none_where_owner_or_group_fits(self, owners: tuple[User, User, Group]) -> None:
        ada, bob, group = owners
        ada.groups.add(group)
        farm.submit(1, owner=ada, group=group)
        farm.submit(1, owner=bob)
        farm.worker("bobs", owner=bob)
        assert findings(job_health.queues) == []

    def test_count_jobs_of_nobody(self, owners: tuple[User, User, Group]) -> None:
        _, bob, _ = owners
        farm.submit(1)
        farm.worker("bobs", owner=bob)
        assert findings(job_health.queues) == [(Level.WARNING, self.SENTENCE)]

    def test_are_found_behind_jobs_that_may_be_taken(self, owners: tuple[User, User, Group]) -> None:
        ada, bob, _ = owners
        farm.submit(300, owner=bob, priority=5)
        farm.submit(1, owner=ada)
        farm.submit(10, owner=bob)
        farm.worker("bobs", owner=bob)
        assert findings(job_health.queues) == [(Level.WARNING, self.SENTENCE)]

    def test_are_none_while_the_job_is_not_due(self, owners: tuple[User, User, Group]) -> None:
        ada, bob, _ = owners
        farm.submit(1, owner=ada, run_at=farm.now() + timedelta(hours=1))
        farm.worker("bobs", owner=bob)
        assert findings(job_health.queues) == []

    def test_are_not_worse_than_starting_while_the_farm_starts(self, owners: tuple[User, User, Group]) -> None:
        ada, bob, _ = owners
        farm.submit(1, owner=ada)
        farm.worker("bobs", owner=bob)
        Process.objects.update(started_at=Now())
        assert findings(job_health.queues) == [(Level.STARTING, self.SENTENCE)]

    def test_without_any_worker_are_those_that_nobody_serves(self, owners: tuple[User, User, Group]) -> None:
        ada, _, _ = owners
        farm.submit(1, owner=ada)
        operations.sync()
        assert findings(job_health.queues) == [
            (Level.WARNING, "Jobs are pending. No live worker serves the queue work.")
        ]
        assert ready("queues") == {"status": "warning", "messages": ["Queues with jobs that no live worker takes: 1."]}
