"""What load balancers, orchestrators and operators are told: /health/live, /health/ready, `manage.py doctor`."""

import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterable
from datetime import timedelta
from urllib.parse import quote

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models.functions import Now
from django.test import Client
from psycopg.conninfo import conninfo_to_dict
from pytest_django import DjangoAssertNumQueries

from jobfarm import health, message_health, scheduler_health
from jobfarm.findings import Finding, Level
from jobs.domain.presence import Part
from jobs.operations.workers import Presence
from postgres import connections
from scheduling import operations as scheduling
from scheduling.models import Cluster, Due, ScheduledFunction
from scheduling.operations import clusters
from scheduling.queries import functions
from scheduling.queries.functions import Holder, Report, report
from tests.scheduling.integration import sample
from tests.servers import serve
from webhooks.domain.deliveries import Source
from webhooks.models import Delivery, Secret
from webhooks.operations import secrets

AROUND = ("janitor", "scheduler", "web", "queues", "redis")
NO_MUTATIONS = "No cluster for mutations runs: no mutation is run, however long it has been due."
NO_ACTIONS = "No cluster for actions runs: no action is run, however long it has been due."


def live_cluster(role: str) -> uuid.UUID:
    """A cluster that has just reported."""
    cluster_id = uuid.uuid4()
    clusters.begin(cluster_id, role=role)
    assert report(cluster_id, Report(workers=2, free=2, waits=False))
    return cluster_id


class TestLive:
    def test_answers_anybody_and_asks_the_database_nothing(
        self, db: None, django_assert_num_queries: DjangoAssertNumQueries
    ) -> None:
        with django_assert_num_queries(0):
            answer = Client().get("/health/live")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        assert "no-store" in answer["Cache-Control"]


class TestReady:
    def test_says_that_all_is_well(self, db: None) -> None:
        live_cluster("mutations")
        live_cluster("actions")
        for part in Part:
            Presence(part=part).report()
        answer = Client().get("/health/ready")
        names = ["database", "writes", "migrations", "janitor", "scheduler", "web", "queues", "redis"]
        assert (answer.status_code, answer.json()) == (
            200,
            {"status": "ready", "checks": {name: {"status": "ok"} for name in names}},
        )

    def test_says_which_cluster_is_missing_and_serves_all_the_same(self, db: None) -> None:
        live_cluster("mutations")
        answer = Client().get("/health/ready")
        assert answer.status_code == 200
        assert answer.json()["checks"]["scheduler"] == {"status": "error", "messages": [NO_ACTIONS]}

    def test_is_not_while_migrations_are_missing(self, db: None) -> None:
        [(app, newest)] = MigrationLoader(connection).graph.leaf_nodes("scheduling")
        MigrationRecorder(connection).record_unapplied(app, newest)
        answer = Client().get("/health/ready")
        assert answer.status_code == 503
        assert answer.json() == {
            "status": "not ready",
            "checks": {
                "database": {"status": "ok"},
                "writes": {"status": "ok"},
                "migrations": {"status": "error", "messages": ["Migrations that have not been applied: 1."]},
                **{name: {"status": "skipped"} for name in AROUND},
            },
        }

    @pytest.mark.django_db(transaction=True)
    def test_is_not_without_a_database_and_tells_nothing_about_it(self) -> None:
        with serve(DATABASE_URL="postgresql://me:hidden@127.0.0.1:1/farm") as server:
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{server.url}/health/ready", timeout=20)
            with urllib.request.urlopen(f"{server.url}/health/live", timeout=20) as alive:
                assert alive.status == 200
        with refused.value as answer:
            assert (answer.code, json.load(answer)) == (
                503,
                {
                    "status": "not ready",
                    "checks": {
                        "database": {"status": "error", "messages": ["The database does not answer."]},
                        "writes": {"status": "skipped"},
                        "migrations": {"status": "skipped"},
                        **{name: {"status": "skipped"} for name in AROUND},
                    },
                },
            )

    def test_is_not_an_error_page_when_a_check_itself_is_wrong(
        self, db: None, caplog: pytest.LogCaptureFixture
    ) -> None:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE scheduling_cluster RENAME TO elsewhere")
        answer = Client().get("/health/ready")
        assert answer.status_code == 200
        assert answer.json()["checks"]["scheduler"] == {
            "status": "error",
            "messages": ["This check failed; the log has the details."],
        }
        assert "scheduling_cluster" in caplog.text

    def test_is_asked_and_not_told(self, db: None) -> None:
        assert Client().post("/health/ready").status_code == 405


def levels_of(findings: Iterable[Finding]) -> list[tuple[Level, str]]:
    return [(finding.level, finding.sentence) for finding in findings]


def scheduler_says() -> list[tuple[Level, str]]:
    return levels_of(scheduler_health.scheduler())


@pytest.mark.django_db
class TestTheDoctorAboutWebhooks:
    def test_names_the_sources_without_a_secret(self) -> None:
        for source in Source:
            if source is not Source.STRIPE:
                secrets.add(source, name="a test")
        assert levels_of(message_health.inbox()) == [
            (Level.FINE, "Webhooks that are refused because they have no secret: Stripe.")
        ]

    def test_tells_what_cannot_be_opened_what_is_late_and_what_is_dead(self) -> None:
        for source in Source:
            secrets.add(source, name="a test")
        Secret.objects.filter(source=Source.CLERK).update(sealed=b"nonsense")
        common = {"source": "github", "body": b"{}", "body_bytes": 2, "received_at": Now() - timedelta(minutes=5)}
        ended = {"ended_at": Now(), "note": "why", "status": "dead"}
        Delivery.objects.create(delivery_id="late", body_sha256=b"1" * 32, **common)
        Delivery.objects.create(delivery_id="dead", body_sha256=b"2" * 32, **common, **ended)
        refused = "SECRET_KEY cannot decrypt the secrets of these sources, so their webhooks are refused: Clerk."
        assert levels_of(message_health.inbox()) == [
            (Level.ERROR, refused),
            (Level.WARNING, "Webhook deliveries that should have been processed a minute ago: 1."),
            (Level.WARNING, "Dead letters (webhook deliveries whose attempts all failed): 1."),
        ]


@pytest.mark.django_db
class TestTheDoctorAboutTheScheduler:
    def test_names_the_clusters_that_are_missing(self) -> None:
        assert scheduler_says() == [(Level.ERROR, NO_MUTATIONS), (Level.ERROR, NO_ACTIONS)]

    def test_is_content_when_both_kinds_run_and_nothing_went_wrong(self) -> None:
        live_cluster("mutations")
        live_cluster("actions")
        assert scheduler_says() == [(Level.FINE, "Clusters that run scheduled functions: 2.")]

    def test_tells_what_is_late_what_froze_and_what_is_unknown(self) -> None:
        live_cluster("mutations")
        frozen = live_cluster("actions")
        row = scheduling.run_after(0, sample.say, word="hi")
        assert functions.start(row.pk, by=_holder_of(row, cluster_id=frozen)) is not None
        clusters.end(frozen, ending="frozen", why="a test")
        live_cluster("actions")
        late = scheduling.run_after(0, sample.say, word="late")
        moment = Now() - timedelta(seconds=60)
        Due.objects.filter(pk=late.pk).update(run_at=moment, next_at=moment)
        assert scheduler_says() == [
            (Level.FINE, "Clusters that run scheduled functions: 2."),
            (Level.WARNING, "Scheduled functions that are late: 1, the oldest by 60 s."),
            (Level.WARNING, "Clusters that froze within a day and were replaced: 1."),
            (Level.WARNING, "Actions with an unknown outcome within a day: 1."),
        ]

    @pytest.mark.django_db(transaction=True)
    def test_exits_with_1_for_a_missing_cluster(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit) as ended:
            call_command("doctor")
        assert ended.value.code == 1
        levels_of = capsys.readouterr().out
        assert (
            f"WRONG  {NO_MUTATIONS}\n       Start manage.py cluster --mutations (manage.py farm does).\n" in levels_of
        )

    def test_forgets_clusters_that_are_not_heard_of_any_more(self) -> None:
        cluster_id = live_cluster("mutations")
        live_cluster("actions")
        Cluster.objects.filter(pk=cluster_id).update(last_seen_at=Now() - timedelta(seconds=11))
        assert scheduler_says() == [(Level.ERROR, NO_MUTATIONS)]


def _holder_of(row: ScheduledFunction, *, cluster_id: uuid.UUID) -> Holder:
    [handed] = clusters.dispatch(scheduling.Kind.ACTION, limit=1)
    assert handed.id == row.pk
    return Holder(cluster_id=cluster_id, ran_by="somewhere:1")


@pytest.mark.django_db(transaction=True)
class TestTheDoctorAboutNotifications:
    def test_hears_its_own(self) -> None:
        assert health.is_round_trip_done(within_s=20)

    def test_warns_where_they_do_not_arrive(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As behind a pooler in transaction mode: who listens and who notifies do not meet."""
        here = conninfo_to_dict(connections.conninfo())
        elsewhere = f"postgresql://{here['user']}@/postgres?host={quote(str(here['host']))}&port={here['port']}"
        monkeypatch.setenv("DATABASE_URL", f"postgresql:///{here['dbname']}")
        monkeypatch.setenv("DATABASE_DIRECT_URL", elsewhere)
        monkeypatch.setattr(health, "NOTIFICATION_WITHIN_S", 0.2)
        [finding] = [found for found in health.examine() if "notification" in found.sentence]
        assert finding.level is Level.WARNING
        assert "DATABASE_DIRECT_URL" in finding.remedy
