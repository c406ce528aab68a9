"""Libraries that may change under us are known to one module each, and the version whose inside is known has a name."""

import ast
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

from scheduling.cluster.django_q2 import KNOWN_VERSION
from tests.architecture.test_layers import PACKAGES, ROOT

# By what is imported: who may.
ALLOWED = {
    "django_q": {"scheduling/cluster/django_q2.py"},
    "django_tasks": {"scheduling/django_tasks.py", "jobfarm_client/django/interface.py"},
    "django.tasks": {"scheduling/django_tasks.py", "jobfarm_client/django/interface.py"},
}
REASON = "  # "


def known(installed: str) -> str:
    """The sentence for a version of django-q2 whose inside nobody has read; empty for the one that was read."""
    if installed == KNOWN_VERSION:
        return ""
    return (
        f"The scheduler knows the inside of django-q2 {KNOWN_VERSION}, and {installed} is installed: read in its"
        " sources what scheduling/cluster/django_q2.py names, run the tests of clusters, then change its KNOWN_VERSION."
    )


def imported(source: str) -> list[str]:
    """The modules that a source imports, wherever in it."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found += [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
    return found


def of(library: str, modules: list[str]) -> bool:
    return any(module == library or module.startswith(f"{library}.") for module in modules)


class TestDjangoQ2:
    def test_is_the_version_whose_inside_is_known(self) -> None:
        assert known(version("django-q2")) == ""

    def test_of_another_version_says_what_to_do(self) -> None:
        assert known("1.12.0").startswith(
            f"The scheduler knows the inside of django-q2 {KNOWN_VERSION}, and 1.12.0 is installed: read"
        )

    def test_is_pinned_to_that_version(self) -> None:
        pins = (ROOT / "requirements.txt").read_text().splitlines()
        assert [pin.split()[0] for pin in pins if pin.startswith("django-q2")] == [f"django-q2=={KNOWN_VERSION}"]

    def test_has_a_reason_for_everything_that_is_taken_from_it(self) -> None:
        path = ROOT / min(ALLOWED["django_q"])
        lines = path.read_text().splitlines()
        taken = [
            lines[name.lineno - 1]
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("django_q")
            for name in node.names
        ]
        assert len(taken) > 5
        assert [line for line in taken if REASON not in line] == []


class TestImports:
    @pytest.mark.parametrize("library", ALLOWED)
    def test_stand_in_one_module_of_the_farm_and_one_of_the_client(self, library: str) -> None:
        importers = {
            str(path.relative_to(ROOT))
            for package in PACKAGES
            for path in (ROOT / package).rglob("*.py")
            if of(library, imported(path.read_text()))
        }
        assert importers == ALLOWED[library]

    @pytest.mark.parametrize(
        "source",
        [
            "import django_q",
            "import django_q.conf as conf",
            "from django_q.models import OrmQ",
            "def late():\n    from django_q import tasks",
        ],
    )
    def test_are_seen_in_every_form(self, source: str) -> None:
        assert of("django_q", imported(source))

    def test_of_a_part_of_django_are_seen(self) -> None:
        assert of("django.tasks", imported("from django import tasks"))
        assert not of("django.tasks", imported("from django.db import models"))


class TestTheOldestPython:
    @pytest.mark.parametrize(
        "newer", ["type Ids = list[int]", "def first[T](of: list[T]) -> T: ...", 'joined = f"{", ".join("ab")}"']
    )
    def test_is_what_the_linter_reads_our_sources_as(self, newer: str) -> None:
        """These come with 3.12: who develops on a newer Python is told before 3.11 is."""
        ruff = Path(sys.executable).with_name("ruff")
        if not ruff.exists():
            pytest.fail("ruff is part of requirements-dev.txt")
        ran = subprocess.run(
            [ruff, "check", "--stdin-filename", "jobs/newer.py", "-"],
            cwd=ROOT, input=f"{newer}\n", capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert ran.returncode == 1
        assert "3.12" in ran.stdout


class TestBenchmarks:
    def test_import_what_is_there(self) -> None:
        """Their scripts run in environments of their own: no linter and no other test loads them all."""
        folder = ROOT / "benchmarks"
        pins = "".join((folder / name).read_text() for name in ("peers.py", "ratelimits.py"))
        missing = [
            f"{path.name}: {module}"
            for path in sorted(folder.rglob("*.py"))
            for module in _modules(path.read_text())
            if not (_is_file(module, path) or module.split(".")[0] in pins.replace("-", "_") or _is_installed(module))
        ]
        assert missing == []


def _modules(source: str) -> set[str]:
    nodes = ast.walk(ast.parse(source))
    return {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


def _is_file(module: str, path: Path) -> bool:
    return path.with_name(f"{module}.py").exists()


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
