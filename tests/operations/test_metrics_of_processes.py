"""What clusters and janitors count, on ports of their own (`--metrics`)."""

import os
import re
import signal
import socket
import subprocess
from datetime import timedelta

import httpx
import pytest
from django.db import connection
from prometheus_client.parser import text_string_to_metric_families

from observing import numbers
from scheduling import operations as scheduling
from tests import farm
from tests.forkserver import ROOT
from tests.jobs.presence import running
from tests.ports import free_port
from tests.scheduling.concurrency.support import all_ended, children, is_up, supervisor, until
from tests.scheduling.integration import sample

pytestmark = pytest.mark.django_db(transaction=True)
NOW = timedelta(0)
TOKEN = "a-token-of-prometheus"
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def port() -> int:
    """One that nobody listens at."""
    return free_port()


def scraped(port: int) -> str:
    """What Prometheus reads there."""
    answer = httpx.get(f"http://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=5)
    assert answer.status_code == 200
    return answer.text


def samples(port: int) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(scraped(port))
        for sample in family.samples
    }


def of(port: int, name: str, **labels: str) -> float:
    return samples(port)[name, tuple(sorted(labels.items()))]


def test_a_cluster_counts_what_its_workers_ran_also_those_that_are_gone(port: int) -> None:
    role = {"role": "mutations"}
    with supervisor("--mutations", f"--metrics 127.0.0.1:{port}", JOBFARM_METRICS_TOKEN=TOKEN) as cluster:
        assert of(port, "jobfarm_functions_run_total", outcome="success", **role) == 0
        for n in range(20):
            scheduling.run_after(NOW, sample.make_group, name=str(n))
        scheduling.run_after(NOW, sample.make_group_and_break, name="broken")
        until(all_ended, what=lambda: cluster.log)
        until(lambda: of(port, "jobfarm_function_run_seconds_count", **role) == 21, what=lambda: scraped(port))
        first = cluster.dispatcher() or 0
        for pid in children(first):
            os.kill(pid, signal.SIGKILL)
        until(lambda: of(port, "jobfarm_cluster_worker_deaths_total", **role) >= 1, what=lambda: cluster.log)
        os.kill(first, signal.SIGKILL)
        until(lambda: cluster.dispatcher() not in {None, first} and is_up(cluster), what=lambda: cluster.log)
        assert of(port, "jobfarm_cluster_restarts_total", **role) == 1
        assert of(port, "jobfarm_functions_run_total", outcome="success", **role) == 20
        assert of(port, "jobfarm_functions_run_total", outcome="failed", **role) == 1
        assert 0 < of(port, "jobfarm_function_run_seconds_sum", **role) < 60
        _keeps_to_the_conventions(scraped(port))


def test_a_janitor_counts_what_it_sweeps(port: int) -> None:
    farm.kind()
    worker = farm.worker()
    farm.submit(1)
    with running.janitor("--metrics", f"127.0.0.1:{port}", JOBFARM_METRICS_TOKEN=TOKEN):
        assert of(port, "jobfarm_janitor_jobs_total", result="taken_back") == 0
        held = farm.claim_one(worker)
        farm.expire_lease(held)
        farm.until(lambda: of(port, "jobfarm_janitor_jobs_total", result="taken_back") == 1, what="the lost lease")
        assert of(port, "jobfarm_janitor_sweep_seconds_count") >= 1
        assert of(port, "jobfarm_janitor_errors_total") == 0
        _keeps_to_the_conventions(scraped(port))


def test_without_a_token_a_janitor_sweeps_and_shows_its_numbers_to_nobody(port: int) -> None:
    farm.kind()
    worker = farm.worker()
    [job] = farm.submit(1)
    with running.janitor("--metrics", f"127.0.0.1:{port}", JOBFARM_METRICS_TOKEN=""):
        farm.expire_lease(farm.claim_one(worker))
        farm.until(lambda: farm.status(job) == "pending", what="the lost lease")
        with pytest.raises(httpx.ConnectError):
            scraped(port)


def test_a_port_that_is_taken_keeps_no_cluster_from_its_work() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"--metrics 127.0.0.1:{taken.getsockname()[1]}"
        with supervisor("--mutations", at, JOBFARM_METRICS_TOKEN=TOKEN) as cluster:
            scheduling.run_after(NOW, sample.make_group, name="made")
            until(all_ended, what=lambda: cluster.log)
            until(lambda: "No numbers are shown at" in cluster.log, what=lambda: cluster.log)


def test_the_manual_knows_each_of_their_numbers_and_no_other() -> None:
    manual = (ROOT / "docs" / "operations.md").read_text().partition("**Of one janitor or cluster**")[2]
    named = set(re.findall(r"^- `(jobfarm_\w+?)(?:_total)?`", manual, re.MULTILINE))
    families = [*numbers.JANITOR.collect(), *numbers.FunctionCounts(1).families("actions")]
    assert {family.name for family in families} == named


def _database() -> str:
    return str(connection.settings_dict["NAME"])


def _keeps_to_the_conventions(text: str) -> None:
    run = subprocess.run(["promtool", "check", "metrics"], input=text.encode(), capture_output=True, check=False)
    assert (run.returncode, run.stdout + run.stderr) == (0, b"")
