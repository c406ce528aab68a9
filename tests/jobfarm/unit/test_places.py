"""Where data lies if nobody says where."""

import os
from pathlib import Path

import pytest

from jobfarm.environment import table


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Code that lies in no checkout, and a person who is not root."""
    monkeypatch.setattr(table, "IS_CHECKOUT", False)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", "/home/ada")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)


def test_a_checkout_keeps_its_data() -> None:
    assert table.data_folder() == Path(__file__).parents[3] / "var"


@pytest.mark.usefixtures("installed")
class TestAWheel:
    def test_keeps_data_at_home(self) -> None:
        assert table.data_folder() == Path("/home/ada/.local/share/jobfarm")

    def test_keeps_it_where_the_desktop_says(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_DATA_HOME", "/data/ada")
        assert table.data_folder() == Path("/data/ada/jobfarm")

    def test_does_not_keep_it_where_somebody_happens_to_be(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_DATA_HOME", "data")
        assert table.data_folder() == Path("/home/ada/.local/share/jobfarm")

    def test_of_root_can_be_reached_by_others(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        assert table.data_folder() == Path("/var/lib/jobfarm-files")
