"""The alerts of deploy/prometheus, by Prometheus' own promtool: each fires when it should, and no other one then."""

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts import registry
from jobfarm import alert_conditions, metrics
from scripts import generated

ROOT = Path(__file__).parents[2]
FILE = ROOT / "deploy" / "prometheus" / "alerts.yml"
RULES: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for rule in yaml.safe_load(FILE.read_text())["groups"][0]["rules"]
}
# A farm with two nodes and nothing amiss, for an hour.
WELL = {
    'up{job="jobfarm", instance="web1"}': "1x60",
    'up{job="jobfarm", instance="web2"}': "1x60",
    "jobfarm_database_up": "1x60",
    'jobfarm_processes{part="janitor"}': "1x60",
    "jobfarm_lease_overdue_seconds": "0x60",
    'jobfarm_clusters_live{role="mutations"}': "1x60",
    'jobfarm_clusters_live{role="actions"}': "1x60",
    'jobfarm_queue_waiting{queue="images"}': "900x60",
    'jobfarm_queue_workers{queue="images"}': "1x60",
    'jobfarm_queue_oldest_seconds{queue="images"}': "800x60",
    'jobfarm_jobs_ended_total{queue="images", outcome="success"}': "0+100x60",
    'jobfarm_jobs_ended_total{queue="images", outcome="failed"}': "0+20x60",
    'jobfarm_jobs_ended_total{queue="images", outcome="timed_out"}': "0+1x60",
    'jobfarm_jobs_ended_total{queue="images", outcome="canceled"}': "0+900x60",
    'jobfarm_usage{resource="files"}': "89x60",
    'jobfarm_quota{resource="files"}': "100x60",
    "jobfarm_functions_oldest_late_seconds": "59x60",
    'jobfarm_functions_bad_of_a_day{status="failed"}': "7x60",
    'jobfarm_functions_bad_of_a_day{status="unknown"}': "0x60",
    "jobfarm_clusters_frozen_of_a_day": "0x60",
    'jobfarm_webhook_deliveries{status="late"}': "3x60",
    'jobfarm_webhook_deliveries{status="dead"}': "0x60",
    "jobfarm_webhook_sources_unreadable": "0x60",
    "jobfarm_outbox_oldest_due_seconds": "59x60",
    "jobfarm_outbox_endpoint_failing_seconds": "899x60",
    "jobfarm_outbox_endpoints_paused": "0x60",
    'jobfarm_disk_free_bytes{instance="web1", disk="database"}': "11x60",
    'jobfarm_disk_bytes{instance="web1", disk="database"}': "100x60",
    "jobfarm_outbox_endpoints_unreadable": "0x60",
    "jobfarm_database_oldest_transaction_seconds": "899x60",
    'jobfarm_pool_errors_total{instance="web1"}': "5x60",
    'jobfarm_http_requests_total{instance="web1", part="api", status="503"}': "0+5x60",
    'jobfarm_http_requests_total{instance="web1", part="api", status="404"}': "0+900x60",
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is other than well, and the labels of the alert that fires then. None: no such number."""

    alert: str
    series: dict[str, str | None]
    labels: dict[str, str] = field(default_factory=dict)
    together: frozenset[str] = frozenset()  # what else fires, and rightly


CASES = [
    Case(
        alert="FarmIsDown",
        series={name: "0x60" if name.startswith("up") else None for name in WELL},
        together=frozenset({"NodeIsDown"}),
    ),
    Case(alert="FarmIsDown", series=dict.fromkeys(WELL)),  # no address of it is known any more
    Case(
        alert="NodeIsDown",
        series={'up{job="jobfarm", instance="web2"}': "0x60"},
        labels={"job": "jobfarm", "instance": "web2"},
    ),
    Case(
        alert="FarmHasNoDatabase",
        series={name: None for name in WELL if name.startswith("jobfarm")} | {"jobfarm_database_up": "0x60"},
    ),
    Case(alert="FarmHasNoJanitor", series={'jobfarm_processes{part="janitor"}': "0x60"}),
    Case(alert="FarmHasNoJanitor", series={"jobfarm_lease_overdue_seconds": "11x60"}),
    Case(
        alert="FarmHasNoCluster", series={'jobfarm_clusters_live{role="actions"}': "0x60"}, labels={"role": "actions"}
    ),
    Case(
        alert="JobsWaitForNobody", series={'jobfarm_queue_workers{queue="images"}': "0x60"}, labels={"queue": "images"}
    ),
    Case(
        alert="JobsWaitTooLong",
        series={'jobfarm_queue_oldest_seconds{queue="images"}': "901x60"},
        labels={"queue": "images"},
    ),
    Case(
        alert="JobsFail",
        series={'jobfarm_jobs_ended_total{queue="images", outcome="timed_out"}': "0+10x60"},
        labels={"queue": "images"},
    ),
    Case(alert="QuotaNearlyReached", series={'jobfarm_usage{resource="files"}': "91x60"}, labels={"resource": "files"}),
    Case(alert="FunctionsAreLate", series={"jobfarm_functions_oldest_late_seconds": "61x60"}),
    Case(alert="ActionsEndedUnknown", series={'jobfarm_functions_bad_of_a_day{status="unknown"}': "1x60"}),
    Case(alert="ClusterFroze", series={"jobfarm_clusters_frozen_of_a_day": "1x60"}),
    Case(alert="WebhooksDied", series={'jobfarm_webhook_deliveries{status="dead"}': "1x60"}),
    Case(alert="WebhookSecretsUnreadable", series={"jobfarm_webhook_sources_unreadable": "1x60"}),
    Case(alert="EventsAreLate", series={"jobfarm_outbox_oldest_due_seconds": "61x60"}),
    Case(alert="EndpointFails", series={"jobfarm_outbox_endpoint_failing_seconds": "901x60"}),
    Case(
        alert="DiskIsNearlyFull",
        series={'jobfarm_disk_free_bytes{instance="web1", disk="database"}': "9x60"},
        labels={"instance": "web1", "disk": "database"},
    ),
    Case(alert="EndpointsPaused", series={"jobfarm_outbox_endpoints_paused": "1x60"}),
    Case(alert="EndpointSecretsUnreadable", series={"jobfarm_outbox_endpoints_unreadable": "1x60"}),
    Case(alert="TransactionTooLong", series={"jobfarm_database_oldest_transaction_seconds": "901x60"}),
    Case(
        alert="NodeHasNoConnectionLeft",
        series={'jobfarm_pool_errors_total{instance="web1"}': "0+1x60"},
        labels={"instance": "web1"},
    ),
    Case(
        alert="NodeAnswersErrors",
        series={'jobfarm_http_requests_total{instance="web1", part="api", status="503"}': "0+9x60"},
        labels={"instance": "web1"},
    ),
]


def _expected(alert: str, labels: dict[str, str]) -> dict[str, Any]:
    rule = RULES[alert]
    notes = {
        name: re.sub(r"\{\{ \$labels\.(\w+) \}\}", lambda match: labels[match[1]], text)
        for name, text in rule["annotations"].items()
    }
    return {"exp_labels": {**labels, **rule["labels"]}, "exp_annotations": notes}


def _verdict(folder: Path, series: dict[str, str | None], expected: dict[str, list[dict[str, Any]]]) -> str:
    """What promtool has against it; empty if these alerts fire after 50 minutes, just so."""
    values = {name: value for name, value in (WELL | series).items() if value is not None}
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": value} for name, value in values.items()],
        "alert_rule_test": [
            {"eval_time": "50m", "alertname": name, "exp_alerts": alerts} for name, alerts in expected.items()
        ],
    }
    file = folder / "test.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(FILE)], "evaluation_interval": "1m", "tests": [test]}))
    run = subprocess.run(["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False)
    return "" if run.returncode == 0 else run.stdout + run.stderr


@pytest.mark.parametrize("case", CASES, ids=[case.alert for case in CASES])
def test_fires_alone_when_it_should(case: Case, tmp_path: Path) -> None:
    expected: dict[str, list[dict[str, Any]]] = {name: [] for name in RULES if name not in case.together}
    assert _verdict(tmp_path, case.series, expected | {case.alert: [_expected(case.alert, case.labels)]}) == ""


def test_none_fires_while_all_is_well(tmp_path: Path) -> None:
    assert _verdict(tmp_path, {}, {name: [] for name in RULES}) == ""


def test_they_are_what_the_conditions_declare() -> None:
    assert FILE.read_text() == generated.alerts(), "make docs"


def test_wake_at_the_number_that_a_rule_of_people_proposes() -> None:
    proposed = {condition.code: condition.threshold for condition in registry.everything()}
    declared = [condition for area in alert_conditions.AREAS for condition in area.conditions]
    both = [condition for condition in declared if condition.rule and condition.unit]
    assert len(both) > 5
    for condition in both:
        assert condition.rule
        assert condition.rule.at(condition.above) in alert_conditions.RULES
        assert proposed[condition.code] == condition.above


def test_no_condition_has_the_name_of_another() -> None:
    codes = [condition.code for area in {*alert_conditions.AREAS, *metrics.AREAS} for condition in area.conditions]
    assert len(codes) == len(set(codes))


def test_each_alert_is_tried() -> None:
    assert {case.alert for case in CASES} == RULES.keys()


def test_each_says_how_urgent_it_is_and_where_to_read_what_to_do() -> None:
    page = (ROOT / "docs" / "alerts.md").read_text()
    for name, rule in RULES.items():
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert f"\n## {name}\n\n{rule['labels']['severity'].capitalize()}" in page
        assert rule["annotations"]["runbook"] == f"docs/alerts.md#{name.lower()}"
    assert set(re.findall(r"^## (\w+)$", page, re.MULTILINE)) == RULES.keys()


def test_they_ask_for_numbers_that_there_are() -> None:
    manual = (ROOT / "docs" / "operations.md").read_text()
    known = set(re.findall(r"^- `(jobfarm_\w+)`", manual, re.MULTILINE))
    metric_names = {name for rule in RULES.values() for name in re.findall(r"jobfarm_\w+", rule["expr"])}
    assert metric_names - known == set()


@pytest.mark.django_db
def test_the_numbers_keep_to_the_conventions_of_prometheus() -> None:
    run = subprocess.run(["promtool", "check", "metrics"], input=metrics.text(), capture_output=True, check=False)
    assert (run.returncode, run.stdout + run.stderr) == (0, b"")
