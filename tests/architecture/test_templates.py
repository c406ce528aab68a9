"""Templates can be read line by line, and load tag libraries only of their own app and of those that it knows."""

import re
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
TEMPLATES: Final = ROOT / "templates"
LONGEST_LINE: Final = 160
PLACES: Final = {
    ".": TEMPLATES,  # without the others
    **{path.name: path for path in sorted((*TEMPLATES.iterdir(), *ROOT.glob("*/*/templates/*"))) if path.is_dir()},
}
# From the app that knows all others down to the one that knows none.
APPS: Final = (
    "jobfarm", "examples", "alerts", "openai_api", "metering", "webhooks", "jobs", "outbox", "accounts", "ratelimits",
    "scheduling", "live", "core",
)  # fmt: skip
# Folders that are not named like the app whose templates they hold. What every app includes knows what `live` knows.
APP_OF_FOLDER: Final = {"admin": "jobfarm", "parts": "live"}
APP_OF_PAGE: Final = {"base.html": "live"}  # of the pages in templates/ itself; the others are jobfarm's
_LOADED: Final = re.compile(r"{% load (?:[^%]* from )?([^%]*) %}")
# What pages call numbers that may pass 999, without the commas that `floatformat:"0g"` sets.
_BARE_COUNT: Final = re.compile(
    r"{{ *[a-z_.]*\b(?:arrived|canceled|count|dead|duplicates|entries|failed|held|late|matched|refused|rejected|"
    r"unhappy|waiting) *}}"
)
_LIBRARIES: Final = {
    path.stem: path.relative_to(ROOT).parts[0]
    for app in APPS
    for path in (ROOT / app).glob("**/templatetags/*.py")
    if path.stem != "__init__"
}


@pytest.mark.parametrize("folder", PLACES)
class TestTemplates:
    def test_have_no_long_lines(self, folder: str) -> None:
        lines = [
            (f"{path.relative_to(ROOT)}:{number}", len(line))
            for path in _templates(folder)
            for number, line in enumerate(path.read_text().splitlines(), 1)
        ]
        assert lines
        assert [place for place, length in lines if length > LONGEST_LINE] == []

    def test_let_the_keyboard_reach_what_scrolls(self, folder: str) -> None:
        texts = [tag for path in _templates(folder) for tag in re.findall(r"<pre\b[^>]*>", path.read_text())]
        wanted = ('tabindex="0"', 'role="group"', "aria-label=")
        assert [tag for tag in texts if not all(each in tag for each in wanted)] == []

    def test_set_commas_in_counts(self, folder: str) -> None:
        found = [(path.name, bare) for path in _templates(folder) for bare in _BARE_COUNT.findall(path.read_text())]
        assert found == []

    def test_load_no_library_of_an_app_above_their_own(self, folder: str) -> None:
        assert [breach for path in _templates(folder) for breach in _breaches(path)] == []


def test_every_app_with_tags_has_its_place_in_the_order() -> None:
    assert {"farm", "live", "webhooks"} <= _LIBRARIES.keys()
    folders = {path.relative_to(ROOT).parts[0] for path in ROOT.glob("[!.]*/**/templatetags")} - {"var"}
    assert folders <= set(APPS)


def test_a_library_of_an_app_above_is_seen() -> None:
    assert _above("{% load static webhooks %}", app="jobs") == ["webhooks"]
    assert _above("{% load tokens from limits %}{% load farm %}", app="ratelimits") == ["farm"]
    assert _above("{% load farm live l10n %}", app="webhooks") == []


def _templates(folder: str) -> list[Path]:
    place = PLACES[folder]
    return sorted(place.glob("*.html") if folder == "." else place.rglob("*.html"))


def _breaches(path: Path) -> list[str]:
    place = path.relative_to(ROOT)
    return [f"{place} loads {library}" for library in _above(path.read_text(), app=_app_of(place))]


def _app_of(place: Path) -> str:
    """The app that a template belongs to: by its folder, below `admin/` by the next one."""
    if place.parts[0] != "templates":
        return place.parts[0]
    folders = [name for name in place.parts[1:-1] if name != "admin"] or ["admin"]
    if len(place.parts) == 2:
        return APP_OF_PAGE.get(place.name, "jobfarm")
    return APP_OF_FOLDER.get(folders[0], folders[0] if folders[0] in APPS else "jobfarm")


def _above(text: str, *, app: str) -> list[str]:
    """The libraries of our apps that `text` loads although their app is above `app`."""
    loaded = [library for names in _LOADED.findall(text) for library in names.split()]
    ours = [library for library in loaded if library in _LIBRARIES]
    return [library for library in ours if APPS.index(_LIBRARIES[library]) < APPS.index(app)]
