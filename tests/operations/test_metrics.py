"""/metrics: who may read it, what it says, what it costs, and that it speaks when the database does not."""

import re
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from prometheus_client.parser import text_string_to_metric_families
from pytest_django import Settings

from jobfarm import metrics
from jobs import operations
from jobs.domain import rollups
from jobs.domain.presence import Part
from jobs.models import Process
from jobs.operations import quotas, rollup
from jobs.operations.workers import Presence
from jobs.queries.rollups import Moments
from tests import farm

pytestmark = pytest.mark.django_db
TOKEN = "a-token-of-prometheus"
DOCUMENT = Path(__file__).parents[2] / "docs" / "operations.md"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(autouse=True)
def _fresh(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was never asked before."""
    settings.METRICS_TOKEN = TOKEN
    monkeypatch.setattr(metrics, "FARM", metrics.Farm())


def scraped() -> Samples:
    """What Prometheus reads."""
    answer = Client().get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.content.decode())
        for sample in family.samples
    }


def of(samples: Samples, name: str, **labels: str) -> float:
    """The one number of this name and these labels."""
    return samples[name, tuple(sorted(labels.items()))]


def settle(*, in_s: float = 0) -> None:
    """Have the roll-up settle the minutes that are over, as if so many seconds had passed."""
    then = farm.now() + timedelta(seconds=in_s)
    rollup.count(Moments(now=then, horizon=then))
    metrics.FARM.families.forget()  # which is a few seconds old by then


class TestWhoMayRead:
    def test_is_nobody_while_the_settings_have_no_token(self, settings: Settings) -> None:
        settings.METRICS_TOKEN = ""
        assert Client().get("/metrics", headers={"Authorization": "Bearer "}).status_code == 404

    @pytest.mark.parametrize("given", ["", "Bearer ", "Bearer wrong", "Basic a-token-of-prometheus"])
    def test_is_nobody_without_the_token(self, given: str) -> None:
        answer = Client().get("/metrics", headers={"Authorization": given} if given else {})
        assert (answer.status_code, answer.content) == (401, b"")


class TestWhatItSays:
    def test_tells_of_queues_and_workers_as_they_are(self) -> None:
        farm.kind()
        first, *_ = farm.submit(3)
        farm.submit(1, priority=5)
        farm.submit(2, run_at=farm.now().replace(year=2190))
        farm.pass_time(first, 90)
        farm.claim_one(farm.worker())  # the one of higher priority
        samples = scraped()
        assert of(samples, "jobfarm_database_up") == 1
        assert of(samples, "jobfarm_queue_waiting", queue="work") == 5
        assert of(samples, "jobfarm_queue_running", queue="work") == 1
        assert of(samples, "jobfarm_queue_workers", queue="work") == 1
        assert of(samples, "jobfarm_queue_paused", queue="work") == 0
        assert 90 <= of(samples, "jobfarm_queue_oldest_seconds", queue="work") < 150
        assert of(samples, "jobfarm_workers_live") == 1
        assert of(samples, "jobfarm_clusters_live", role="mutations") == 0

    def test_tells_how_many_processes_report(self) -> None:
        for part in (Part.WEB, Part.WEB, Part.JANITOR):
            Presence(part=part).report()
        Process.objects.filter(part=Part.JANITOR).update(seen_at=farm.now() - timedelta(seconds=16))
        samples = scraped()
        assert of(samples, "jobfarm_processes", part="web") == 2
        assert of(samples, "jobfarm_processes", part="janitor") == 0

    def test_tells_what_all_jobs_have_and_may_have(self, settings: Settings) -> None:
        settings.JOBFARM = {**settings.JOBFARM, "WAITING_JOBS_IN_ALL": 50, "FILES_IN_ALL": 0}
        quotas.WAITING.forget()  # what waited in the tests before
        farm.kind()
        farm.submit(3)
        samples = scraped()
        assert of(samples, "jobfarm_usage", resource="waiting_jobs") == 3
        assert of(samples, "jobfarm_quota", resource="waiting_jobs") == 50
        assert of(samples, "jobfarm_usage", resource="files") == 0
        assert of(samples, "jobfarm_usage", resource="bytes_of_output") == 0
        assert ("jobfarm_quota", (("what", "files"),)) not in samples

    def test_finds_the_oldest_job_behind_those_that_hide_and_those_that_matter_more(self) -> None:
        farm.kind()
        old, *_ = farm.submit(2)
        farm.submit(1, priority=3)
        worker = farm.worker()
        failing = farm.submit(1, priority=9)[0]
        farm.fail(worker, farm.claim_one(worker))
        farm.pass_time(failing, 5)
        farm.pass_time(old, 1000)
        assert 1000 <= of(scraped(), "jobfarm_queue_oldest_seconds", queue="work") < 1100

    def test_counts_what_ended_since_it_was_asked_first_once_each(self) -> None:
        farm.kind()
        worker = farm.worker()
        settle()
        scraped()
        *_, last = farm.submit(4)
        operations.cancel(last.pk, by=None)
        for _ in range(2):
            farm.succeed(worker, farm.claim_one(worker))
        farm.fail(worker, farm.claim_one(worker), retryable=False)
        for in_s in (120, 240):
            settle(in_s=in_s)
            samples = scraped()
        assert of(samples, "jobfarm_jobs_submitted_total", queue="work") == 4
        ended = {
            outcome: of(samples, "jobfarm_jobs_ended_total", queue="work", outcome=outcome)
            for outcome in metrics.OUTCOMES
        }
        assert ended == {"success": 2, "failed": 1, "canceled": 1, "timed_out": 0}
        assert of(samples, "jobfarm_job_run_seconds_count", queue="work") == 3
        assert of(samples, "jobfarm_job_run_seconds_bucket", queue="work", le="+Inf") == 3
        assert of(samples, "jobfarm_job_wait_seconds_count", queue="work") == 3

    def test_counts_what_this_process_hands_out(self) -> None:
        farm.kind()
        farm.submit(3)
        before = _claimed(scraped())
        operations.claim(farm.worker(), limit=2)
        assert _claimed(scraped()) == before + 2

    def test_has_no_number_that_the_manual_does_not_know(self) -> None:
        farm.kind()
        rows = re.findall(r"^- `(jobfarm_\w+)`", _of_web_nodes(), re.MULTILINE)
        named, scraped_families = (_families(names) for names in (rows, [name for name, _ in scraped()]))
        assert scraped_families - named == set()
        assert named - scraped_families - PROCESS_ONLY == set()


def _of_web_nodes() -> str:
    """The manual without what clusters and janitors show (test_metrics_of_processes)."""
    return DOCUMENT.read_text().partition("**Of one janitor or cluster**")[0]


# Without a label there is no series yet, in a process that has not done such a thing.
PROCESS_ONLY = {
    "jobfarm_jobs_claimed", "jobfarm_limit_denials", "jobfarm_webhook_requests", "jobfarm_http_requests",
    "jobfarm_http_request_seconds", "jobfarm_open_connections", "jobfarm_jobs_submitted", "jobfarm_jobs_ended",
    "jobfarm_job_run_seconds", "jobfarm_job_wait_seconds", "jobfarm_mutation_collisions",
    "jobfarm_page_sockets_refused", "jobfarm_page_watches_refused", "jobfarm_num_requests_waiting",
    "jobfarm_num_requests_running", "jobfarm_time_to_first_token_seconds", "jobfarm_prompt_tokens",
    "jobfarm_request_time_per_output_token_seconds", "jobfarm_generation_tokens", "jobfarm_call_hooks",
    "jobfarm_prefix_cache_queries", "jobfarm_prefix_cache_hits",
}  # fmt: skip


class TestWhatItCosts:
    def test_is_a_few_statements_and_none_soon_after(self) -> None:
        farm.kind()
        with CaptureQueriesContext(connection) as first:
            scraped()
        with CaptureQueriesContext(connection) as second:
            scraped()
        assert len(first) < 30
        assert len(second) == 0

    def test_is_bounded_by_a_time_of_its_own(self) -> None:
        """What it reads in is a transaction that may not take long; other requests keep their own rules."""
        with CaptureQueriesContext(connection) as samples:
            scraped()
        assert any("statement_timeout" in query["sql"] for query in samples.captured_queries)


class TestWithoutADatabase:
    def test_says_so_and_tells_what_the_process_counted(self) -> None:
        def gone(*_: object) -> None:
            raise OperationalError("the server went away")

        with connection.execute_wrapper(gone):
            samples = scraped()
        assert of(samples, "jobfarm_database_up") == 0
        assert not any(name.startswith("jobfarm_queue") for name, _ in samples)
        assert any(name == "process_cpu_seconds_total" for name, _ in samples)


class TestBuckets:
    def test_are_cumulative_and_keep_every_run(self) -> None:
        counts = {str(rollups.bucket(seconds)): 1 for seconds in (0.001, 0.02, 1.0, 3.0, 100_000.0)}
        made = dict(metrics.buckets(counts))
        assert made["0.015625"] == 1
        assert made["0.0625"] == 2
        assert made["1.0"] == 2  # a bucket counts what is shorter than its edge; one second is not
        assert made["4.0"] == 4
        assert made["16384.0"] == 4
        assert made["+Inf"] == 5
        assert rollups.total_s(counts) == pytest.approx(100_004, rel=0.1)


def _families(names: Iterable[str]) -> set[str]:
    ours = [name for name in names if name.startswith("jobfarm_")]
    return {re.sub(r"_(total|bucket|count|sum)$", "", name) for name in ours}


def _claimed(samples: Samples) -> float:
    return samples.get(("jobfarm_jobs_claimed_total", (("queue", "work"),)), 0)
