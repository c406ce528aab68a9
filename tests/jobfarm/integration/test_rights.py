"""Whose rights the web process has when root starts a farm: never more than it needs, or a sentence says why."""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from pytest_django import Settings

from jobfarm import processes
from postgres.embedded import places
from postgres.embedded.places import Account
from tests.jobfarm.integration.test_farm_command import Farm, one_farm, until

PACKAGES = Path(pytest.__file__).parents[1]
UNTIL_A_BOAT_IS_PAINTED = """
import time
from jobs import operations
from jobs.models import Job
job = operations.submit("image", {"prompt": "a boat", "size": 64}).pk
while Job.objects.get(pk=job).status != "success":
    time.sleep(0.1)
"""
Complaint = Callable[[Mapping[str, Path]], str]


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
def place() -> Iterator[Path]:
    """A folder that others may enter, which those of pytest are closed to."""
    with tempfile.TemporaryDirectory(prefix="jobfarm-rights-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.fixture
def farm(place: Path) -> Iterator[Farm]:
    """A farm in such a folder."""
    with one_farm(place) as made:
        yield made


@pytest.mark.skipif(os.geteuid() != 0, reason="nobody but root has rights to give up")
class TestRoot:
    def test_gives_the_rights_of_the_web_process_and_of_the_worker_up(self, farm: Farm) -> None:
        own = farm.data / "environment"  # which the account may not read: it has its settings from its parent
        own.write_text(f"PYTHONPATH={PACKAGES}\n")
        own.chmod(0o600)
        farm.environment |= {"PYTHONPATH": str(PACKAGES), "JOBFARM_ENV_FILE": str(own)}
        (farm.data / "files").mkdir()
        (farm.data / "files" / "old").write_text("of an earlier farm")
        farm.start("--with-worker", python=open_python())
        uids = {name: uid_of(pid) for name, pid in farm.children().items()}
        server = places.location(farm.data).home.stat().st_uid
        lowered = {name for name, uid in uids.items() if uid == server != 0}
        assert (lowered, farm.complaint) == ({"web", "worker"}, "")
        assert uid_of_file(farm.data / "files" / "old") == server
        farm.manage("shell", "-v0", "-c", UNTIL_A_BOAT_IS_PAINTED)
        until(lambda: any(path.suffix == ".png" for path in (farm.data / "files").rglob("*")), "the picture's file")
        assert {uid_of_file(path) for path in (farm.data / "files").rglob("*")} == {server}
        farm.signal(signal.SIGKILL)
        until(lambda: farm.left_running() == [], "those with fewer rights end with it too")

    @pytest.mark.parametrize(
        ("what", "sentence"),
        [
            ("python", "may not enter {closed}."),
            ("packages", "it finds no "),
            ("data", "it may not write into {closed}/data/files."),
        ],
    )
    def test_says_what_is_closed_to_others(
        self, place: Path, complaint_of: Complaint, what: str, sentence: str
    ) -> None:
        closed = place / "closed"
        closed.mkdir(mode=0o700)
        (closed / "python").symlink_to(open_python())
        (closed / "packages").symlink_to(PACKAGES)
        complaint = complaint_of(opened(place) | {what: closed / what})
        assert complaint.startswith("The web process keeps root's rights: user ")
        assert sentence.format(closed=closed) in complaint
        assert "Put what lies there where" in complaint
        assert complaint.endswith("or start the farm as another user.")

    def test_says_nothing_where_all_is_open_or_files_are_in_a_bucket(
        self, monkeypatch: pytest.MonkeyPatch, place: Path, complaint_of: Complaint
    ) -> None:
        assert complaint_of(opened(place)) == ""
        closed = place / "closed"
        closed.mkdir(mode=0o700)
        monkeypatch.setenv("FILES_URL", "s3://pictures")
        assert complaint_of(opened(place) | {"data": closed / "data"}) == ""

    def test_says_that_files_have_no_folder(self, tmp_path: Path, settings: Settings) -> None:
        settings.MEDIA_ROOT = tmp_path / "files"
        settings.MEDIA_ROOT.write_text("")
        assert "File exists" in processes.rights_of_servants().complaint

    def test_says_that_python_does_not_start(
        self, monkeypatch: pytest.MonkeyPatch, place: Path, settings: Settings
    ) -> None:
        settings.MEDIA_ROOT = place / "files"
        monkeypatch.setattr(sys, "executable", open_python())
        monkeypatch.setattr(processes, "_PROBE_S", 0)
        assert "did not get Python to start within 0 s" in processes.rights_of_servants().complaint


ACCOUNT = Account(uid=54_321, gid=54_321)


@pytest.mark.skipif(os.geteuid() != 0, reason="nobody but root can give files away")
class TestFilesOfRoot:
    @pytest.fixture
    def files(self, tmp_path: Path, settings: Settings) -> Path:
        """A folder in a folder, with a file."""
        settings.MEDIA_ROOT = tmp_path / "files"
        (settings.MEDIA_ROOT / "jobs").mkdir(parents=True)
        (settings.MEDIA_ROOT / "jobs" / "old").write_text("")
        return Path(settings.MEDIA_ROOT)

    def test_are_handed_over_once_and_what_links_lead_to_is_not(self, tmp_path: Path, files: Path) -> None:
        """A farm with a million files does not look at each of them at every start."""
        (tmp_path / "elsewhere").write_text("")
        (files / "link").symlink_to(tmp_path / "elsewhere")
        processes._hand_over_files(ACCOUNT)
        handed = [files, *files.rglob("*")]
        assert len(handed) == 4
        assert {path.lstat().st_uid for path in handed} == {ACCOUNT.uid}
        assert uid_of_file(tmp_path / "elsewhere") == 0
        (files / "later").write_text("")
        processes._hand_over_files(ACCOUNT)
        assert uid_of_file(files / "later") == 0

    def test_are_handed_over_from_the_start_where_that_was_cut_off(
        self, monkeypatch: pytest.MonkeyPatch, files: Path
    ) -> None:
        chown = os.chown

        def cut_off(path: str, *owner: int, **how: bool) -> None:
            if path.endswith("old"):
                raise OSError(path)
            chown(path, *owner, **how)

        (files / "first").write_text("")
        with monkeypatch.context() as broken:
            broken.setattr(os, "chown", cut_off)
            with pytest.raises(OSError, match="old"):
                processes._hand_over_files(ACCOUNT)
        processes._hand_over_files(ACCOUNT)
        assert {uid_of_file(path) for path in [files, *files.rglob("*")]} == {ACCOUNT.uid}


def opened(place: Path) -> dict[str, Path]:
    """Python, its packages and a folder for data that others may enter."""
    return {"python": Path(open_python()), "packages": PACKAGES, "data": place / "data"}


@pytest.fixture
def complaint_of(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Complaint:
    """What a farm that root starts there says of its rights. Only who tries them is a process of its own: each that
    loads Django would take two seconds of a processor."""

    def complaint(where: Mapping[str, Path]) -> str:
        settings.JOBFARM_DATA, settings.MEDIA_ROOT = where["data"], where["data"] / "files"
        where["data"].mkdir(exist_ok=True)
        monkeypatch.setattr(sys, "executable", str(where["python"]))
        monkeypatch.setenv("PYTHONPATH", str(where["packages"]))
        return processes.rights_of_servants().complaint

    return complaint


def uid_of_file(path: Path) -> int:
    return path.stat().st_uid


def test_of_anybody_else_are_kept(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert processes.rights_of_servants() == processes.Rights()
