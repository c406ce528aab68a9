"""The layers of the design are a contract that import-linter keeps, and that is seen to break here."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = (
    "accounts", "alerts", "core", "examples", "jobfarm", "jobfarm_client", "jobfarm_worker", "jobs", "live",
    "metering", "observing", "openai_api", "outbox", "postgres", "ratelimits", "scheduling", "webhooks",
)  # fmt: skip

BREACHES = [
    pytest.param("alerts/domain/judging.py", "import time", "plain Python", id="judging reads a clock"),
    pytest.param("alerts/queries.py", "import jobs.queries", "never by its tables", id="alerts counts jobs"),
    pytest.param("webhooks/crons.py", "import alerts.models", "Apps know only", id="webhooks knows alerts"),
    pytest.param("core/backoff.py", "import live.hub", "Apps know only", id="core knows an app"),
    pytest.param("core/refusal.py", "import django.http", "plain Python", id="a refusal uses Django"),
    pytest.param("jobs/domain/states.py", "import core.audit", "plain Python", id="a domain rule writes the admin log"),
    pytest.param("core/asgi.py", "import core.audit", "Inside core", id="a type of ASGI knows the admin log"),
    pytest.param("postgres/clock.py", "import live.hub", "Apps know only", id="postgres looks up to live"),
    pytest.param("accounts/operations/tokens.py", "import jobs.operations", "Apps know only", id="accounts knows jobs"),
    pytest.param("jobs/domain/states.py", "import django.db", "plain Python", id="a domain rule uses Django"),
    pytest.param("jobs/domain/leases.py", "import time", "plain Python", id="a domain rule reads the clock"),
    pytest.param("jobs/queries/reads.py", "import jobs.operations", "Inside an app", id="a query calls an operation"),
    pytest.param("jobs/errors.py", "import jobs.models", "Inside an app", id="an error knows the tables"),
    pytest.param("jobs/extra.py", "", "Inside an app", id="a module that does not say where it stands"),
    pytest.param(
        "jobfarm_worker/errors.py",
        "import jobs.errors",
        "The worker and the client know none",
        id="the worker knows an app",
    ),
    pytest.param(
        "jobs/operations/claim.py", "import jobfarm_worker.errors", "No app knows", id="an app knows the worker"
    ),
    pytest.param("jobfarm_worker/errors.py", "import django", "import no Django", id="the worker uses Django"),
    pytest.param(
        "jobfarm_client/wire.py",
        "import jobfarm_worker.errors",
        "built on the client",
        id="the client knows the worker",
    ),
    pytest.param(
        "jobs/operations/claim.py", "import jobfarm_client.wire", "No app knows", id="an app knows the client"
    ),
    pytest.param(
        "jobfarm_client/errors.py", "import jobfarm_client.client", "Inside the client", id="an error knows the clients"
    ),
    pytest.param(
        "jobs/operations/claim.py", "import accounts.models", "by their operations", id="one app opens another's tables"
    ),
    pytest.param(
        "scheduling/cluster/keeper.py", "import django_q", "django-q2 is known", id="a second module knows django-q2"
    ),
    pytest.param(
        "scheduling/backend.py", "import django_tasks", "tasks interface is known", id="and a second one django-tasks"
    ),
]


def _lint(folder: Path) -> "subprocess.CompletedProcess[str]":
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [program, "--no-cache"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": str(folder), "COLUMNS": "300"},
    )


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is said of each broken contract, by its name, where all breaches are planted in a copy of the sources."""
    copy = tmp_path_factory.mktemp("copy")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package, ignore=shutil.ignore_patterns("__pycache__", "static"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    for breach in BREACHES:
        file, line, _ = breach.values
        with (copy / str(file)).open("a") as module:
            module.write(f"\n{line}\n")
    result = _lint(copy)
    assert result.returncode == 1
    _, *reports = re.split(r"^(.+)\n-+\n", result.stdout.partition("Broken contracts")[2], flags=re.MULTILINE)
    return dict(zip(reports[::2], reports[1::2], strict=True))


class TestTheContract:
    def test_is_kept(self) -> None:
        result = _lint(ROOT)
        assert result.returncode == 0, result.stdout

    @pytest.mark.parametrize(("file", "line", "contract"), BREACHES)
    def test_breaks_where(self, broken: dict[str, str], file: str, line: str, contract: str) -> None:
        module, imported = file.removesuffix(".py").replace("/", "."), line.removeprefix("import ")
        if (package := imported.partition(".")[0]) not in PACKAGES:
            imported = package  # of somebody else's no more is known
        words = f"{module} -> {imported} " if line else module
        assert any(contract in name and words in report for name, report in broken.items()), broken
