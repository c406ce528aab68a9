"""Farms for the tests of the embedded server."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from django.db import connection

from postgres.backend.base import DatabaseWrapper
from tests.postgres.integration.farms import SETTINGS, Farm, Person, make_farm, people


@pytest.fixture
def new_pool(transactional_db: None) -> None:
    """A pool that holds no connections of earlier tests, with what they prepared."""
    connection.close()
    cast("DatabaseWrapper", connection).close_pool()


@pytest.fixture(scope="session")
def settings_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="jf-settings-", dir="/tmp"))
    folder.chmod(0o755)
    (folder / "private_settings.py").write_text(SETTINGS)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def fresh_farm(settings_folder: Path) -> Iterator[Farm]:
    """A folder in which nothing has ever run, of an ordinary user if there is one."""
    yield from _fresh(people()[-1], settings_folder)


@pytest.fixture(params=people(), ids=lambda person: f"as {person.name}")
def everyones_fresh_farm(request: pytest.FixtureRequest, settings_folder: Path) -> Iterator[Farm]:
    """The same, for each of the people there are."""
    yield from _fresh(request.param, settings_folder)


@pytest.fixture(params=people(), ids=lambda person: f"as {person.name}", scope="session")
def kept_farm_of_each(request: pytest.FixtureRequest, settings_folder: Path) -> Iterator[Farm]:
    """A folder whose cluster has been made: shared by the tests, to save the second that this takes."""
    yield from _kept(request.param, settings_folder)


@pytest.fixture(scope="session")
def kept_farm(settings_folder: Path) -> Iterator[Farm]:
    yield from _kept(people()[-1], settings_folder)


@pytest.fixture
def everyones_farm(kept_farm_of_each: Farm) -> Iterator[Farm]:
    """A folder with its cluster and nothing running on it, for each of the people there are."""
    yield from _quiet(kept_farm_of_each)


@pytest.fixture
def farm(kept_farm: Farm) -> Iterator[Farm]:
    """The same, for an ordinary user if there is one: enough where root's server differs in nothing."""
    yield from _quiet(kept_farm)


def _fresh(person: Person, settings: Path) -> Iterator[Farm]:
    farm = make_farm(person, settings)
    yield farm
    farm.remove()


def _kept(person: Person, settings: Path) -> Iterator[Farm]:
    farm = make_farm(person, settings)
    farm.run("clock.now()")
    yield farm
    farm.remove()


def _quiet(farm: Farm) -> Iterator[Farm]:
    assert farm.processes() == []
    yield farm
    left = farm.processes()
    farm.end_all()
    assert left == []
