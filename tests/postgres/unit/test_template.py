"""Which server the tests may have write without waiting for the disk."""

from pathlib import Path

import pytest
from pytest_django import Settings

from jobfarm.environment import table
from tests import template


class TestAServerThatMayLoseWhatItHas:
    @pytest.fixture(autouse=True)
    def _embedded(self, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(settings.DATABASES["default"], "EMBEDDED", "somewhere")

    def test_is_one_in_a_folder_of_the_tests(self, settings: Settings, tmp_path: Path) -> None:
        settings.JOBFARM_DATA = tmp_path
        assert template.may_lose_what_it_has()

    def test_is_not_that_of_this_checkouts_own_farm(self, settings: Settings) -> None:
        settings.JOBFARM_DATA = table.data_folder()
        assert not template.may_lose_what_it_has()

    def test_is_not_one_that_others_keep(
        self, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        settings.JOBFARM_DATA = tmp_path
        monkeypatch.delitem(settings.DATABASES["default"], "EMBEDDED")
        assert not template.may_lose_what_it_has()
