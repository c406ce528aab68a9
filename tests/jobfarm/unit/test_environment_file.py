"""The environment file: what systemd, docker and the farm read alike is taken, all else is refused by its line."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from django.conf import settings

from jobfarm.environment import files
from tests.looped import looped

EXAMPLE = Path(settings.BASE_DIR) / "deploy" / "environment"
# Reads files as systemd itself does, by the same function, and prints what it read as a shell would be told.
SYSTEMD = Path("/usr/lib/systemd/user-environment-generators/30-systemd-environment-d-generator")
READ_ALIKE: list[tuple[str, dict[str, str]]] = [
    ("PORT=8000", {"PORT": "8000"}),
    ("  PORT=8000", {"PORT": "8000"}),
    ("PORT=8000\r", {"PORT": "8000"}),
    ("REDIS_URL=", {"REDIS_URL": ""}),
    (
        "DATABASE_URL=postgresql://a:b%24c%23d@h/x?sslmode=require",
        {"DATABASE_URL": "postgresql://a:b%24c%23d@h/x?sslmode=require"},
    ),
    ("JOBFARM_GAME_BLOCKED=two words, it's=one", {"JOBFARM_GAME_BLOCKED": "two words, it's=one"}),
    ("# PORT=8000", {}),
    (" # 'a comment'", {}),
    ("", {}),
    (" \t", {}),
]


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Path]:
    """Where a file is looked for, in this order: beside the code, in the working directory, in /etc."""
    code, here, etc = tmp_path / "code", tmp_path / "here", tmp_path / "etc"
    for folder in (code, here, etc):
        folder.mkdir()
    monkeypatch.setattr(files, "CODE", code)
    monkeypatch.setattr(files, "OF_THE_MACHINE", etc / "environment")
    monkeypatch.chdir(here)
    return code / "jobfarm.env", here / "jobfarm.env", etc / "environment"


class TestALine:
    @looped(("line", "expected"), READ_ALIKE)
    def test_that_all_three_read_alike_is_taken_as_it_stands(self, line: str, expected: dict[str, str]) -> None:
        assert files.parse(line, name="f") == files.Contents(values=expected)

    @looped(
        ("line", "reason"),
        [
            ('SECRET_KEY="s3cret"', "begins with a quote"),
            ("SECRET_KEY='s3cret'", "begins with a quote"),
            ("SECRET_KEY= s3cret", "begins or ends with a space"),
            ("SECRET_KEY=s3cret ", "begins or ends with a space"),
            ("SECRET_KEY=s3cret\t", "holds a control character"),
            ("SECRET_KEY=s3\rcret", "holds a control character"),
            ("SECRET_KEY=s3cret\\", "holds a backslash"),
            ("SECRET_KEY=s3$cret", "holds a $"),
            ("SECRET_KEY=s3cret # mine", "holds a #"),
            ("SECRET_KEY=s3#cret", "holds a #, where compose begins a comment"),
            ("export SECRET_KEY=s3cret", "leave out `export`"),
            ("SECRET_KEY = s3cret", "not NAME=value"),
            ("SECRET_KEY", "not NAME=value"),
            ("; s3cret", "not NAME=value"),
            ("SECRET-KEY=s3cret", "not NAME=value"),
            ("# s3cret \\", "hides the next line from systemd"),
        ],
    )
    def test_that_they_read_differently_is_refused_by_its_number(self, line: str, reason: str) -> None:
        found = files.parse(f"PORT=1\n\n{line}\nLOG_LEVEL=INFO", name="/etc/jobfarm/environment")
        assert found.values == {"PORT": "1", "LOG_LEVEL": "INFO"}
        assert [sentence.partition(": ")[0] for sentence in found.complaints] == ["/etc/jobfarm/environment, line 3"]
        assert reason in found.complaints[0]
        assert "s3" not in found.complaints[0]

    @pytest.mark.skipif(not SYSTEMD.exists(), reason="no systemd here")
    def test_is_read_so_by_systemd(self, tmp_path: Path) -> None:
        """It says nothing of empty values there."""
        (tmp_path / "environment.d").mkdir()
        lines = [line for line, expected in READ_ALIKE if "" not in expected.values()]
        text = "\n".join([*lines, EXAMPLE.read_text()])
        (tmp_path / "environment.d" / "farm.conf").write_bytes(text.encode())
        done = subprocess.run(
            [SYSTEMD], env={"XDG_CONFIG_HOME": str(tmp_path)}, capture_output=True, text=True, check=True
        )
        printed = dict(shlex.split(line)[0].split("=", 1) for line in done.stdout.splitlines())
        ours = files.parse(text, name="f")
        assert ours.complaints == []
        assert {name: printed.get(name) for name in ours.values} == ours.values

    def test_of_the_example_is_one_of_those(self) -> None:
        found = files.parse(EXAMPLE.read_text(), name="f")
        assert found.complaints == []
        assert found.values["JOBFARM_DATA"] == "/var/lib/jobfarm-files"


class TestWhichFile:
    def test_is_the_first_that_is_there(self, places: tuple[Path, ...]) -> None:
        assert files.find({}) == files.Contents()
        for number, path in reversed(list(enumerate(places))):
            path.write_text(f"PORT={number}\n")
            path.chmod(0o600)
            assert files.find({}).values == {"PORT": str(number)}

    def test_is_looked_for_where_the_folder_is_gone_too(self, places: tuple[Path, ...]) -> None:
        places[1].parent.rmdir()
        places[2].write_text("PORT=1\n")
        assert files.find({}).values == {"PORT": "1"}

    def test_can_be_named_and_can_be_none(self, places: tuple[Path, ...], tmp_path: Path) -> None:
        places[0].write_text("PORT=1\n")
        own = tmp_path / "own"
        own.write_text("PORT=2\n")
        assert files.find({"JOBFARM_ENV_FILE": str(own)}).values == {"PORT": "2"}
        assert files.find({"JOBFARM_ENV_FILE": ""}) == files.Contents()

    def test_that_is_named_and_not_there_is_said(self, tmp_path: Path) -> None:
        named = tmp_path / "typo"
        assert files.find({"JOBFARM_ENV_FILE": str(named)}).complaints == [
            f"JOBFARM_ENV_FILE names {named}, which cannot be read: No such file or directory."
        ]

    def test_that_cannot_be_read_is_said(self, places: tuple[Path, ...]) -> None:
        places[2].mkdir()
        (complaint,) = files.find({}).complaints
        assert complaint.startswith(f"{places[2]} has the settings of this farm and cannot be read: Is a directory. ")

    @pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
    def test_that_is_closed_to_this_user_is_said(self, places: tuple[Path, ...]) -> None:
        places[2].write_text("PORT=1\n")
        places[2].chmod(0)
        (complaint,) = files.find({}).complaints
        assert "cannot be read: Permission denied. Run this as a user who may" in complaint

    def test_that_is_no_text_is_said(self, places: tuple[Path, ...]) -> None:
        places[2].write_bytes(b"SECRET_KEY=\xff\n")
        assert files.find({}).complaints == [f"{places[2]} is not a text in UTF-8."]

    def test_that_lies_where_others_may_write_is_not_read_by_chance(self, places: tuple[Path, ...]) -> None:
        """Somebody types a command in /tmp: the file there would say which code is run."""
        places[1].write_text("PORT=1\n")
        places[1].chmod(0o666)
        found = files.find({})
        assert found.values == {}
        (complaint,) = found.complaints
        assert complaint.startswith(f"{places[1]} can be changed by others than you: name it in JOBFARM_ENV_FILE")
        assert files.find({"JOBFARM_ENV_FILE": str(places[1])}).values == {"PORT": "1"}
