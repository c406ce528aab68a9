"""The environment file: what systemd, docker and the farm read alike is taken, all else is refused by its line."""

import os
from pathlib import Path

import pytest
from django.conf import settings

from jobfarm.environment import file

EXAMPLE = Path(settings.BASE_DIR) / "deploy" / "environment"


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Path]:
    """Where a file is looked for, in this order: beside the code, in the working directory, in /etc."""
    code, here, etc = tmp_path / "code", tmp_path / "here", tmp_path / "etc"
    for folder in (code, here, etc):
        folder.mkdir()
    monkeypatch.setattr(file, "_CODE", code)
    monkeypatch.setattr(file, "OF_THE_MACHINE", etc / "environment")
    monkeypatch.chdir(here)
    return code / "jobfarm.env", here / "jobfarm.env", etc / "environment"


class TestALine:
    @pytest.mark.parametrize(
        ("line", "expected"),
        [
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
        ],
    )
    def test_that_all_three_read_alike_is_taken_as_it_stands(
        self, line: str, expected: dict[str, str]
    ) -> None:
        assert file.parse(line, name="f") == file.Found(values=expected)

    @pytest.mark.parametrize(
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
        found = file.parse(f"PORT=1\n\n{line}\nLOG_LEVEL=INFO", name="/etc/jobfarm/environment")
        assert found.values == {"PORT": "1", "LOG_LEVEL": "INFO"}
        assert [sentence.partition(": ")[0] for sentence in found.complaints] == [
            "/etc/jobfarm/environment, line 3"
        ]
        assert reason in found.complaints[0]
        assert "s3" not in found.complaints[0]

    def test_of_the_example_is_one_of_those(self) -> None:
        found = file.parse(EXAMPLE.read_text(), name="f")
        assert found.complaints == []
        assert found.values["JOBFARM_DATA"] == "/var/lib/jobfarm-files"


class TestWhichFile:
    def test_is_the_first_that_is_there(self, places: tuple[Path, ...]) -> None:
        assert file.find({}) == file.Found()
        for number, path in reversed(list(enumerate(places))):
            path.write_text(f"PORT={number}\n")
            path.chmod(0o600)
            assert file.find({}).values == {"PORT": str(number)}

    def test_can_be_named_and_can_be_none(self, places: tuple[Path, ...], tmp_path: Path) -> None:
        places[0].write_text("PORT=1\n")
        own = tmp_path / "own"
        own.write_text("PORT=2\n")
        assert file.find({"JOBFARM_ENV_FILE": str(own)}).values == {"PORT": "2"}
        assert file.find({"JOBFARM_ENV_FILE": ""}) == file.Found()

    def test_that_is_named_and_not_there_is_said(self, tmp_path: Path) -> None:
        named = tmp_path / "typo"
        assert file.find({"JOBFARM_ENV_FILE": str(named)}).complaints == [
            f"JOBFARM_ENV_FILE names {named}, which cannot be read: No such file or directory."
        ]

    def test_that_cannot_be_read_is_said(self, places: tuple[Path, ...]) -> None:
        places[2].mkdir()
        (complaint,) = file.find({}).complaints
        assert complaint.startswith(
            f"{places[2]} has the settings of this farm and cannot be read: Is a directory. "
        )

    @pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
    def test_that_is_closed_to_this_user_is_said(self, places: tuple[Path, ...]) -> None:
        places[2].write_text("PORT=1\n")
        places[2].chmod(0)
        (complaint,) = file.find({}).complaints
        assert "cannot be read: Permission denied. Run this as a user who may" in complaint

    def test_that_is_no_text_is_said(self, places: tuple[Path, ...]) -> None:
        places[2].write_bytes(b"SECRET_KEY=\xff\n")
        assert file.find({}).complaints == [f"{places[2]} is not a text in UTF-8."]

    def test_that_lies_where_others_may_write_is_not_read_by_chance(self, places: tuple[Path, ...]) -> None:
        """Somebody types a command in /tmp: the file there would say which code is run."""
        places[1].write_text("PORT=1\n")
        places[1].chmod(0o666)
        found = file.find({})
        assert found.values == {}
        (complaint,) = found.complaints
        assert complaint.startswith(
            f"{places[1]} can be changed by others than you: name it in JOBFARM_ENV_FILE"
        )
        assert file.find({"JOBFARM_ENV_FILE": str(places[1])}).values == {"PORT": "1"}
