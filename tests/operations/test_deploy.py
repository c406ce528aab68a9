"""The files in deploy/ and beside it say what the farm understands: commands, settings, numbers."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands, load_command_class

from jobfarm.environment import table
from tests.looped import looped
from tests.operations.wheels import is_ignored

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted(path for path in (DEPLOY / "systemd").iterdir() if path.is_file())
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service.get("image") == "jobfarm"}
# Of others than the farm: uvicorn, libpq, and compose.yaml itself.
OTHERS = {"FORWARDED_ALLOW_IPS", "PGPASSWORD", "POSTGRES_PASSWORD", "FARM_ADDRESS"}
GRACE_S = 40  # of a cluster: SCHEDULING_GRACE_S, and until its end is written


def procfile() -> dict[str, str]:
    """The lines of the Procfile."""
    lines = (ROOT / "Procfile").read_text().splitlines()
    return dict(re.fullmatch(r"(\w+): (.+)", line).groups() for line in lines if not line.startswith("#"))  # type: ignore[union-attr, misc]


def unit_commands() -> dict[str, str]:
    """What the units run."""
    found = {unit.name: re.search(r"^ExecStart=(.+)$", unit.read_text(), re.MULTILINE) for unit in UNITS}
    return {name: match[1] for name, match in found.items() if match}


def words() -> dict[str, list[str]]:
    """Every command line of the farm in these files, from the name of the management command on."""
    lines = procfile() | unit_commands()
    commands = {name: shlex.split(line.partition("manage.py ")[2].strip("'")) for name, line in lines.items()}
    return commands | {f"compose {name}": list(service["command"]) for name, service in OURS.items()}


def read_in_passing() -> set[str]:
    """The environment variables that our code reads by themselves."""
    asks = re.compile(r"""(?:environ(?:\.get)?[\[(]\s*|_is_off\(|\bnumber\(|variable=)["']([A-Z][A-Z_]+)["']""")
    apps = (
        "jobfarm",
        "postgres",
        "jobs",
        "scheduling",
        "live",
        "webhooks",
        "accounts",
        "examples",
        "observing",
        "openai_api",
    )
    sources = [source for app in apps for source in (ROOT / app).rglob("*.py")]
    return {name for source in sources for name in asks.findall(source.read_text())}


def declared() -> set[str]:
    """Those that the table of variables has."""
    return {variable.name for variable in table.VARIABLES}


class TestCommandLines:
    @looped("where", sorted(words()))
    def test_are_understood(self, where: str) -> None:
        name = words()[where][0]
        options = [
            word.replace("$PORT", "8000").replace("%i", "8000" if name == "web" else "1")
            for word in words()[where][1:]
            if word
        ]
        command = load_command_class(get_commands()[name], name)
        command.create_parser("manage.py", name).parse_args(options)  # a wrong one ends with SystemExit

    def test_are_of_every_part(self) -> None:
        parts = {"web", "janitor", "cluster"}
        for given in (procfile(), unit_commands(), OURS):
            named = " ".join(map(str, [given, *[service.get("command") for service in OURS.values()]]))
            assert [part for part in parts if part not in named] == []


class TestSettings:
    def test_are_read_by_the_farm(self) -> None:
        lines = (DEPLOY / "environment").read_text().splitlines()
        given = {line.partition("=")[0] for line in lines if line and not line.startswith("#")}
        for service in OURS.values():
            given |= set(service["environment"])
        assert given - OTHERS - declared() == set()

    def test_that_are_read_are_declared(self) -> None:
        """What is not in the table is neither checked nor in the manual. Tests have their own, and Django its usual
        one; XDG_DATA_HOME is the desktop's, JOB stands in the samples of the API's page alone, and two are the
        worker's that `farm` starts."""
        own = {"JOBFARM_TEST_DATABASE", "DJANGO_SETTINGS_MODULE", "Q_CLUSTER_NAME", "XDG_DATA_HOME", "JOB"}
        own |= {"JOBFARM_IMAGE_URL", "OPENAI_BASE_URL"}
        assert read_in_passing() - own - OTHERS - declared() == set()

    def test_that_are_declared_are_read(self) -> None:
        """By the settings, by those that read in passing, or by Amazon's library."""
        in_settings = set(
            re.findall(r"""_ENV\[\s*["'](\w+)["']\s*\]""", (ROOT / "jobfarm" / "settings.py").read_text())
        )
        settings = (ROOT / "jobfarm" / "settings.py").read_text()
        groups = tuple(re.findall(r"""_group\(\s*["'](\w+_)["']""", settings))
        in_groups = {name for name in declared() if name.startswith(groups)}
        amazons = {name for name in declared() if name.startswith("AWS_")}
        assert declared() - in_settings - in_groups - amazons - read_in_passing() == set()


class TestUnits:
    @pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
    def test_are_valid(self, tmp_path: Path) -> None:
        for unit in UNITS:
            text = unit.read_text().replace("/opt/jobfarm/.venv/bin/python", sys.executable)
            (tmp_path / unit.name).write_text(text)
        named = [str(tmp_path / unit.name.replace("@", "@8000")) for unit in UNITS]
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", *named], capture_output=True, text=True, check=False
        )
        about_ours = [line for line in done.stderr.splitlines() if "jobfarm" in line]
        assert (done.returncode, about_ours) == (0, [])

    @pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd here")
    def test_are_exposed_to_little(self, tmp_path: Path) -> None:
        """`systemd-analyze security` adds up what a unit may do, from 0 to 10; without hardening.conf they have 9.2."""
        folder = tmp_path / "etc" / "systemd" / "system"
        shutil.copytree(DEPLOY / "systemd", folder)
        for unit in UNITS:
            shutil.copy(unit, folder / unit.name.replace("@", "@1"))
        for name in [unit.name.replace("@", "@1") for unit in UNITS if unit.suffix == ".service"]:
            command = ["systemd-analyze", "security", "--offline=yes", "--threshold=25", f"--root={tmp_path}", name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout.splitlines()[-1:] + done.stderr.splitlines()

    def test_give_what_they_stop_its_grace(self) -> None:
        for unit in UNITS:
            grace = re.search(r"TimeoutStopSec=(\d+)", unit.read_text())
            if "cluster" in unit.read_text():
                assert grace is not None
                assert int(grace[1]) > GRACE_S


class TestImage:
    @pytest.mark.parametrize(
        "path",
        [
            "deploy/.env",
            "jobfarm.env",
            "my.env",
            "var/secret_key",
            "2026-11-21/secret_key",
            "privkey.pem",
            ".git/config",
        ],
    )
    def test_holds_no_secret(self, path: str) -> None:
        """As docker reads it: a pattern that fits a folder leaves out all in it, and `**/` stands for any depth."""
        parts = path.split("/")
        folders = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
        assert any(map(is_ignored, folders))

    def test_holds_all_that_the_code_opens(self) -> None:
        needed = ["manage.py", "requirements.txt", "templates/base.html", "jobs/sql/claim.sql"]
        assert [path for path in needed if is_ignored(path)] == []


class TestCompose:
    def test_names_only_what_is_there(self) -> None:
        for service in SERVICES.values():
            assert set(service.get("depends_on", {})) <= set(SERVICES)
            assert "image" in service or "build" in service
            for volume in service.get("volumes", []):
                source = volume.split(":")[0]
                assert source in COMPOSE["volumes"] or (DEPLOY / source).exists(), volume

    def test_waits_for_what_can_say_that_it_is_well(self) -> None:
        for service in SERVICES.values():
            for name, dependency in service.get("depends_on", {}).items():
                assert dependency["condition"] != "service_healthy" or "healthcheck" in SERVICES[name]

    def test_gives_clusters_their_grace(self) -> None:
        for name in ("mutations", "actions"):
            assert int(SERVICES[name]["stop_grace_period"].rstrip("s")) > GRACE_S
