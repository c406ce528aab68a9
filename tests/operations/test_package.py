"""What the wheel, with and without [server], gives: outside of any checkout."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from django.core.management import get_commands, load_command_class
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import jobfarm
from jobfarm.environment import EXAMPLES
from tests.architecture.test_tidiness import tracked
from tests.operations import wheels
from tests.operations.wheels import ROOT
from tests.ports import free_port

pytestmark = pytest.mark.landing

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PACKAGES: Final = (
    "accounts", "alerts", "core", "examples", "jobfarm", "jobfarm_client", "jobfarm_worker", "jobs", "live",
    "metering", "observing", "openai_api", "outbox", "postgres", "ratelimits", "scheduling", "templates",
    "webhooks",
)  # fmt: skip
UP_WITHIN_S = 60.0
# Everything that the wheel has, but for what needs a further extra, and what runs when it is imported.
IMPORT_ALL = """
import importlib, os, pathlib, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "jobfarm.settings"
import jobfarm.settings, django
django.setup()
root = pathlib.Path(jobfarm.settings.BASE_DIR)
for package in sys.argv[1:]:
    for path in sorted((root / package).rglob("*.py")):
        name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
        others = ("jobfarm_worker.handlers", "jobfarm_client.mcp", "jobfarm_client.django")
        if not name.startswith(others) and "__main__" not in name:
            importlib.import_module(name)
from django.template.loader import get_template
for page in ("jobs/list.html", "chat/rooms.html", "imagegame/lobby.html"):
    get_template(page)
"""


# What another site gets of it: its settings have one app of ours.
IMPORT_FOR_A_SITE = """
import importlib, pkgutil
import django
from django.conf import settings
settings.configure(INSTALLED_APPS=["jobfarm_client.django"])
django.setup()
import jobfarm_client.django
for module in pkgutil.walk_packages(jobfarm_client.django.__path__, "jobfarm_client.django."):
    importlib.import_module(module.name)
print(jobfarm_client.django.FarmBackend.__name__)
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from what the image's build sees."""
    folder = tmp_path_factory.mktemp("wheel")
    return wheels.build(wheels.context(folder / "tree"), folder / "dist")


@pytest.fixture(scope="module")
def server(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the server and the demonstrator."""
    return wheels.install(wheel, tmp_path_factory.mktemp("server") / "venv", extras=["server", "demo"])


@pytest.fixture(scope="module")
def worker(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment without any extra."""
    return wheels.install(wheel, tmp_path_factory.mktemp("worker") / "venv")


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a program somewhere else, with nothing of this checkout in its environment."""

    def ran(*command: str | Path, **more: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command, cwd=tmp_path, env=_environment(tmp_path, **more), capture_output=True, text=True, timeout=120,
            check=False,
        )  # fmt: skip

    return ran


def _environment(home: Path, **more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "JOBFARM_ENV_FILE": "", **more}


class TestTheWheel:
    def test_has_every_file_of_its_packages_and_the_licence(self, wheel: Path) -> None:
        inside = set(zipfile.ZipFile(wheel).namelist())
        files = {
            str(path.relative_to(ROOT))
            for package in PACKAGES
            for path in (ROOT / package).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
        assert len(files) > 800
        assert files - inside == set()
        of_servers = f"jobfarm-{jobfarm.__version__}.data/data/share/jobfarm/"
        others = {path.removeprefix(of_servers) for path in inside - files if ".dist-info/" not in path}
        deploy = {str(path.relative_to(ROOT)) for path in tracked("deploy/*")}
        assert others == deploy, "neither tests nor settings of anybody are in it"
        assert f"jobfarm-{jobfarm.__version__}.dist-info/licenses/LICENSE" in inside

    def test_asks_for_what_was_tested(self) -> None:
        """Each pin of requirements.txt is one line of pyproject.toml, whose bounds it keeps, and the other way round;
        those that are pinned for another's sake are named here."""
        lines = [*PROJECT["dependencies"]]
        lines += [
            line for extra in ("server", "demo", "openai", "mcp") for line in PROJECT["optional-dependencies"][extra]
        ]
        bounds = {canonicalize_name(each.name): each.specifier for each in map(Requirement, lines)}
        pinned = [
            Requirement(line.partition("#")[0])
            for line in (ROOT / "requirements.txt").read_text().splitlines()
            if line.partition("#")[0].strip() and not line.startswith("-")
        ]
        pins = {canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in pinned}
        assert set(pins) - set(bounds) == {"psycopg-binary", "psycopg-pool", "openai"}  # the last: the docs'
        assert set(bounds) - set(pins) == set()
        assert [name for name, bound in bounds.items() if pins[name] not in bound] == []

    def test_has_no_setting_that_only_a_checkout_understands(self, server: Path, run: Run) -> None:
        script = "import core.commands as c, jobfarm.settings as s; print(c.MANAGE, s.JOBFARM_DATA, c.argv('web')[1:])"
        printed = run(server / "python", "-P", "-c", script).stdout
        folder = "/var/lib/jobfarm-files" if os.geteuid() == 0 else "/.local/share/jobfarm"
        assert printed.startswith("jobfarm ")
        assert f"{folder} ['-P', '-m', 'jobfarm', 'web']" in printed


class TestACheckout:
    def test_is_compiled_whole_by_the_line_of_the_first_day(self, tmp_path: Path) -> None:
        """The farm's user may not write there: what is not compiled then is compiled at each start."""
        [line] = re.findall(
            r"^\.venv/bin/(python -m compileall .*)$", (ROOT / "docs/first-day.md").read_text(), re.MULTILINE
        )
        for package in PACKAGES:
            for source in (ROOT / package).rglob("*.py"):
                copy = tmp_path / source.relative_to(ROOT)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.touch()
        (tmp_path / "tests").mkdir()
        (tmp_path / "tests" / "test_x.py").touch()
        subprocess.run(["sh", "-ec", line.replace("python", sys.executable, 1)], cwd=tmp_path, check=True, timeout=60)
        compiled = {path.parents[1] / f"{path.name.partition('.')[0]}.py" for path in tmp_path.rglob("*.pyc")}
        assert compiled == set(tmp_path.rglob("*.py")) - {tmp_path / "tests" / "test_x.py"}


class TestTheImage:
    LINES: Final = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text()).splitlines()

    def of(self, instruction: str) -> list[str]:
        """What stands behind this word, line by line."""
        return [line.partition(" ")[2] for line in self.LINES if line.startswith(f"{instruction} ")]

    def test_installs_the_wheel_as_its_line_says(self, wheel: Path, tmp_path: Path) -> None:
        """Without what it requires, which is the next test's; constraints are read nevertheless."""
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True, timeout=60)
        [line] = [line for line in self.of("RUN") if line.startswith("pip install")]
        shutil.copy(wheel, tmp_path)
        shutil.copy(ROOT / "constraints.txt", tmp_path)
        python = f"{shlex.quote(sys.executable)} -m pip --python {tmp_path}/venv/bin/python"
        pip = f'pip() {{ shift; {python} install --quiet --no-deps --no-index "$@"; }}'
        subprocess.run(["sh", "-ec", f"{pip}\n{line.replace('/wheel/', f'{tmp_path}/')}"], check=True, timeout=60)
        assert (tmp_path / "venv" / "bin" / "jobfarm").is_file()
        assert set(re.findall(r"\[(\w+)\]", line)) <= set(PROJECT["optional-dependencies"])

    def test_copies_what_is_there_and_starts_a_command_that_is_there(self) -> None:
        assert self.of("COPY") == [". .", "--from=wheel /wheel /source/constraints.txt /wheel/"]
        [[entry]] = map(json.loads, self.of("ENTRYPOINT"))
        assert entry in PROJECT["scripts"]
        [[name, *options]] = map(json.loads, self.of("CMD"))
        load_command_class(get_commands()[name], name).create_parser(entry, name).parse_args(options)


class TestAnEnvironmentWithoutExtras:
    def test_has_the_worker_and_no_django(self, worker: Path, run: Run) -> None:
        assert run(worker / "jobfarm-worker", "--help").returncode == 0
        assert "No module named 'django'" in run(worker / "python", "-c", "import django").stderr
        made = "from jobfarm_worker.handlers.named import handlers; print(handlers('chat-demo'))"
        assert run(worker / "python", "-c", made).returncode == 0

    def test_has_the_client_and_its_commands(self, worker: Path, run: Run) -> None:
        nowhere = {"JOBFARM_URL": "http://127.0.0.1:9", "JOBFARM_TOKEN": "jft_x"}
        refused = run(worker / "jobfarm", "submit", "chat", "--retry-for", "0", **nowhere)
        assert (refused.returncode, refused.stderr) == (1, "jobfarm: [Errno 111] Connection refused\n")
        assert run(worker / "python", "-c", "from jobfarm_client import Client").returncode == 0

    def test_says_which_extra_a_handler_needs(self, worker: Path, run: Run) -> None:
        key = {"JOBFARM_KEY": "jfw_x", "JOBFARM_URL": "http://127.0.0.1:9"}
        painter = run(worker / "jobfarm-worker", "--handler", "image-demo", **key)
        assert painter.returncode == 2
        assert "needs the package numpy: in a checkout of jobfarm, pip install '.[demo]'." in painter.stderr
        model = run(worker / "jobfarm-worker", "--handler", "chat", **key, JOBFARM_LLM_URL="http://127.0.0.1:9")
        assert "needs the package aiohttp: in a checkout of jobfarm, pip install '.[openai]'." in model.stderr

    def test_says_that_the_farm_needs_one(self, worker: Path, run: Run) -> None:
        refused = run(worker / "jobfarm", "doctor")
        assert refused.returncode == 1
        assert refused.stderr == (
            "The farm itself needs further packages: in a checkout of it, pip install '.[server]'. "
            "Here are jobfarm-worker, and jobfarm submit, watch, tail, cancel, signal, bulk.\n"
        )
        assert run(worker / "jobfarm", "--version").stdout == f"jobfarm {jobfarm.__version__}\n"


class TestAnEnvironmentWithTheServer:
    def test_has_all_that_its_modules_import(self, wheel: Path, tmp_path: Path, run: Run) -> None:
        bare = wheels.install(wheel, tmp_path / "venv", extras=["server"])
        packages = [name for name in PACKAGES if name != "templates"]
        given = {"JOBFARM_APPS": EXAMPLES, "JOBFARM_DATA": str(tmp_path / "data")}
        imported = run(bare / "python", "-P", "-c", IMPORT_ALL, *packages, **given)
        assert imported.stderr == ""

    def test_has_the_app_of_another_site(self, server: Path, run: Run) -> None:
        imported = run(server / "python", "-P", "-c", IMPORT_FOR_A_SITE)
        assert (imported.stdout, imported.stderr) == ("FarmBackend\n", "")

    def test_names_its_commands_as_they_are_typed(self, server: Path, run: Run, tmp_path: Path) -> None:
        data = {"JOBFARM_DATA": str(tmp_path / "data")}
        assert run(server / "jobfarm", "help", "web", **data).stdout.startswith("usage: jobfarm web")
        refused = run(server / "jobfarm", "doctor", **data)
        assert refused.returncode == 1
        assert "with the command `farm` or `migrate`." in refused.stderr

    def test_starts_a_farm_with_an_app_of_ones_own(self, server: Path, tmp_path: Path) -> None:
        app = tmp_path / "apps" / "notes"
        app.mkdir(parents=True)
        (app / "__init__.py").touch()
        (app / "urls.py").write_text(
            "from django.http import HttpResponse\nfrom django.urls import path\n"
            'urlpatterns = [path("", lambda request: HttpResponse("a note"))]\n'
        )
        (tmp_path / "jobs").mkdir()  # in the folder where it is started: not ours
        (tmp_path / "jobs" / "__init__.py").write_text("raise RuntimeError('somebody else')")
        own = {"PYTHONPATH": str(tmp_path / "apps"), "JOBFARM_APPS": "notes"}
        with _farm(server, tmp_path, **own) as url:
            assert httpx.get(f"{url}/notes/").text == "a note"
            for path in ("accounts/login/", "static/jobfarm/values.css", "static/admin/css/base.css", "api/docs"):
                assert httpx.get(f"{url}/{path}").status_code == 200, path
            assert _painted(server, url, tmp_path, **own) == "success"


@contextmanager
def _farm(programs: Path, home: Path, **more: str) -> Iterator[str]:
    """`jobfarm start`, until it is ready; its address. Its data is in home/data."""
    port = free_port()
    log = home / "farm.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [programs / "jobfarm", "start", "--port", str(port)], cwd=home, stdout=output, stderr=output,
            env=_environment(home, JOBFARM_DATA=str(home / "data"), **more),
        )  # fmt: skip
    try:
        _wait_until_ready(f"http://127.0.0.1:{port}/health/ready", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)


def _wait_until_ready(url: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    end = time.monotonic() + UP_WITHIN_S
    while True:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        try:
            if httpx.get(url, timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.1)


def _painted(programs: Path, url: str, home: Path, **more: str) -> str:
    """How a picture ended that the demonstrator painted."""
    environment = _environment(home, JOBFARM_DATA=str(home / "data"), **more)
    made = subprocess.run(
        [programs / "jobfarm", "create_token", "admin"], cwd=home, env=environment, capture_output=True, text=True,
        timeout=60, check=True,
    )  # fmt: skip
    auth = {"Authorization": f"Bearer {made.stdout.strip()}"}
    picture = {"kind": "image", "payload": {"prompt": "a barn", "width": 64, "height": 64}}
    job = httpx.post(f"{url}/api/v1/jobs", headers=auth, json=picture).json()["id"]
    httpx.get(f"{url}/api/v1/jobs/{job}/events", headers=auth, timeout=60)  # ends with the job
    return str(httpx.get(f"{url}/api/v1/jobs/{job}", headers=auth).json()["status"])
