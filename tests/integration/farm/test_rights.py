"""Whose rights the web process has when root starts a farm: never more than it needs, or a sentence says why."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from jobfarm import rights
from postgres.embedded import places
from tests.integration.farm.test_farm_command import ROOT, Farm, one_farm, until

PACKAGES = Path(pytest.__file__).parents[1]
UNTIL_IT_IS_PAINTED = """
import time
from jobs.models import Job
while Job.objects.get(pk={job}).status != "success":
    time.sleep(0.1)
"""
HOW = "import django; django.setup(); from jobfarm import rights; print(rights.of_servants().complaint)"


def open_python() -> str:
    """A Python of this version that other users can run: often not that of a virtual environment of root's."""
    here = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = shutil.which(here, path="/usr/local/bin:/usr/bin")
    if found is None:
        pytest.skip(f"no {here} on this machine that others than root can run")
    return found


def uid_of(pid: int) -> int:
    return Path(f"/proc/{pid}").stat().st_uid


@pytest.fixture
def farm() -> Iterator[Farm]:
    """A farm whose folder others may enter, which those of pytest are closed to."""
    with tempfile.TemporaryDirectory(prefix="jobfarm-rights-") as folder:
        Path(folder).chmod(0o755)
        with one_farm(Path(folder)) as made:
            yield made


@pytest.mark.skipif(os.geteuid() != 0, reason="nobody but root has rights to give up")
class TestRoot:
    def test_gives_the_rights_of_the_web_process_and_of_the_worker_up(self, farm: Farm) -> None:
        farm.environment |= {"PYTHONPATH": str(PACKAGES)}
        (farm.data / "files").mkdir()
        (farm.data / "files" / "old").write_text("of an earlier farm")
        farm.start("--with-worker", python=open_python())
        uids = {name: uid_of(pid) for name, pid in farm.children().items()}
        server = places.location(farm.data).home.stat().st_uid
        lowered = {name for name, uid in uids.items() if uid == server != 0}
        assert (lowered, farm.complaint) == ({"web", "worker"}, "")
        assert uid_of_file(farm.data / "files" / "old") == server
        job = farm.manage(
            *("shell", "-v0", "-c"),
            "from jobs import operations; print(operations.submit('image', {'prompt': 'a boat', 'size': 64}).pk)",
        ).strip()
        farm.manage("shell", "-v0", "-c", UNTIL_IT_IS_PAINTED.format(job=job))
        until(
            lambda: any(path.suffix == ".png" for path in (farm.data / "files").rglob("*")),
            "the picture's file",
        )
        assert {uid_of_file(path) for path in (farm.data / "files").rglob("*")} == {server}

    def test_says_what_is_closed_to_others(self, tmp_path: Path) -> None:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o700)
        (closed / "python").symlink_to(open_python())
        environment = os.environ | {
            "PYTHONPATH": str(PACKAGES), "JOBFARM_DATA": str(tmp_path), "DJANGO_SETTINGS_MODULE": "jobfarm.settings",
        }  # fmt: skip
        done = subprocess.run(
            [str(closed / "python"), "-c", HOW],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.startswith("The web process keeps root's rights: user ")
        assert "may not enter" in done.stdout
        assert done.stdout.strip().endswith("or start it as another user.")


def uid_of_file(path: Path) -> int:
    return path.stat().st_uid


def test_of_anybody_else_are_kept(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert rights.of_servants() == rights.Rights()
