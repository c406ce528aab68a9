"""The dashboard of deploy/grafana: Grafana can show it, its queries parse, and ask for what a running farm shows."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.jobs.presence import running
from tests.ports import free_port
from tests.scheduling.concurrency.support import supervisor
from tests.servers import serve

ROOT = Path(__file__).parents[2]
BOARD: dict[str, Any] = json.loads((ROOT / "deploy" / "grafana" / "jobfarm.json").read_text())
ALERTS = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())["groups"][0]["rules"]
PANELS: list[dict[str, Any]] = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
# Of Grafana 10 and 11.
KINDS = {"row", "stat", "timeseries"}
UNITS = {"short", "s", "ops", "reqps", "percentunit", "bytes"}
COLUMNS = 24
TOKEN = "a-token-of-prometheus"
# Every Python process and every target of Prometheus has these.
OF_ALL = re.compile(r"(?:process|python)_\w+|up")
LABELS_OF_ALL = {"instance", "job", "le", "quantile"}


class TestGrafana:
    def test_is_given_what_a_dashboard_must_have(self) -> None:
        assert BOARD["schemaVersion"] >= 36
        assert (BOARD["title"], BOARD["uid"], BOARD["id"]) == ("jobfarm", "jobfarm", None)
        assert BOARD.keys() >= {"panels", "templating", "time", "refresh", "annotations", "tags", "version"}
        numbers = [panel["id"] for panel in BOARD["panels"]]
        assert len(numbers) == len(set(numbers))
        assert {panel["type"] for panel in BOARD["panels"]} == KINDS

    def test_can_place_every_panel_beside_the_others(self) -> None:
        taken: set[tuple[int, int]] = set()
        for panel in BOARD["panels"]:
            at = panel["gridPos"]
            assert at["x"] + at["w"] <= COLUMNS
            cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
            assert not cells & taken, panel["title"]
            taken |= cells

    def test_knows_where_each_query_goes_and_how_its_numbers_are_written(self) -> None:
        for panel in PANELS:
            assert panel["fieldConfig"]["defaults"]["unit"] in UNITS
            places = [target["refId"] for target in panel["targets"]]
            assert places
            assert len(places) == len(set(places))
            for each in (panel, *panel["targets"]):
                assert each["datasource"] == {"type": "prometheus", "uid": "${datasource}"}

    def test_has_each_variable_that_is_used_and_uses_each(self) -> None:
        variables = {each["name"]: each for each in BOARD["templating"]["list"]}
        used = re.findall(r"\$\{?(\w+)", json.dumps([BOARD["panels"], variables["queue"]]))
        assert set(used) - {"__all"} == variables.keys() == {"datasource", "queue"}
        assert variables["datasource"]["type"] == "datasource"
        assert variables["queue"]["query"]["query"] == "label_values(jobfarm_queue_waiting, queue)"
        assert all('queue=~"$queue"' in query for query in QUERIES if "$queue" in query)


class TestAPanel:
    def test_says_what_to_do(self) -> None:
        for panel in PANELS:
            assert len(panel["description"]) > 60, panel["title"]

    def test_points_at_sections_that_there_are(self) -> None:
        sections = {rule["annotations"]["runbook"] for rule in ALERTS}
        named = set(re.findall(r"docs/alerts\.md#\w+", json.dumps(PANELS)))
        assert len(named) > 10
        assert named <= sections
        for page in re.findall(r"docs/\w+\.md", json.dumps(BOARD)):
            assert (ROOT / page).is_file()

    def test_has_a_query_that_prometheus_understands(self, tmp_path: Path) -> None:
        filled = [query.replace("$queue", "chat|images") for query in QUERIES]
        rules = [{"record": f"panel:{n}", "expr": query} for n, query in enumerate(filled)]
        file = tmp_path / "rules.yml"
        file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
        run = subprocess.run(["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout + run.stderr
        assert f"{len(QUERIES)} rules found" in run.stdout


@pytest.mark.django_db(transaction=True)
def test_every_number_that_is_wanted_labels_is_one_that_a_running_farm_shows() -> None:
    """By panels and by alerts: of a web node, a janitor and a cluster."""
    ports = [free_port(), free_port()]
    janitor, cluster = ([f"--metrics=127.0.0.1:{port}"] for port in ports)
    with (
        serve(JOBFARM_METRICS_TOKEN=TOKEN) as server,
        running.janitor(*janitor, JOBFARM_METRICS_TOKEN=TOKEN),
        supervisor("--mutations", *cluster, JOBFARM_METRICS_TOKEN=TOKEN),
    ):
        shown = _names([server.url, *(f"http://127.0.0.1:{port}" for port in ports)])
    expressions = [*QUERIES, *(rule["expr"] for rule in ALERTS)]
    named = {name for each in expressions for name in re.findall(r"\bjobfarm_\w+", each)}
    assert len(named) > 45
    assert named - shown == set()


def test_every_label_that_is_wanted_labels_is_one_of_that_number() -> None:
    manual = (ROOT / "docs" / "operations.md").read_text()
    rows = re.findall(r"^- `(jobfarm_\w+)`(?: \(([\w, ]*)\))?:", manual, re.MULTILINE)
    labels = {re.sub(r"_total$", "", name): set(text.replace(",", " ").split()) for name, text in rows}
    for query in [*QUERIES, *(rule["expr"] for rule in ALERTS)]:
        for name, matchers in re.findall(r"\b([a-z]\w+)\{([^}]*)\}", query):
            wanted_labels = set(re.findall(r"(\w+)[=!]", matchers)) - LABELS_OF_ALL
            if not OF_ALL.fullmatch(name):
                assert wanted_labels <= labels[re.sub(r"_(?:total|bucket)$", "", name)], query
        for grouped in re.findall(r"by \(([^)]*)\)", query):
            names = [re.sub(r"_(?:total|bucket)$", "", name) for name in re.findall(r"\bjobfarm_\w+", query)]
            known = LABELS_OF_ALL.union(*(labels[name] for name in names))
            assert set(grouped.replace(",", " ").split()) <= known, query


def _names(addresses: list[str]) -> set[str]:
    """Of all series that can be there, also of those that have no labels yet."""
    names: set[str] = set()
    for address in addresses:
        answer = httpx.get(f"{address}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}, timeout=10)
        assert answer.status_code == 200
        for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", answer.text, re.MULTILINE):
            names |= {name} | ({f"{name}_bucket", f"{name}_count"} if kind == "histogram" else set())
    return names
