"""Each threat and each promise names what proves it: tests that exist."""

import ast
import re
from pathlib import Path

import pytest
from django.conf import settings

ROOT = Path(settings.BASE_DIR)
_TEST = re.compile(r"`([\w/]+/test_\w+\.py)((?:::\w+)*)`")
_PLACE = re.compile(r"`([\w*]+/[\w./]*)`")


def _rows(page: str) -> list[list[str]]:
    """The cells of the rows of this page's tables of promises or threats, without their heads."""
    text = (ROOT / "docs" / page).read_text()
    tables = [re.findall(r"^\|(.*)\|$", block, re.MULTILINE) for block in text.split("\n\n")]
    rows = [
        [[cell.strip() for cell in line.split("|")] for line in lines]
        for lines in tables
        if lines and lines[0].split("|")[0].strip() in {"#", "Threat"}
    ]
    return [cells for table in rows for cells in table[2:]]


def _exists(path: str, names: list[str]) -> bool:
    """Whether this file has this test; without names, whether it has any."""
    file = ROOT / "tests" / path
    if not file.is_file():
        return False
    found: list[ast.AST] = [ast.parse(file.read_text())]
    for name in names:
        found = [each for node in found for each in ast.iter_child_nodes(node) if getattr(each, "name", "") == name]
    return bool(found)


@pytest.mark.parametrize(("page", "least"), [("promises.md", 13), ("security.md", 30)])
def test_every_line_names_tests_that_exist(page: str, least: int) -> None:
    rows = _rows(page)
    assert len(rows) >= least
    for cells in rows:
        named = [(path, names.split("::")[1:]) for path, names in _TEST.findall(cells[-1])]
        assert named, f"no test proves: {cells}"
        assert [each for each in named if not _exists(*each)] == [], cells[:2]


def test_every_threat_names_a_place_that_exists() -> None:
    for cells in _rows("security.md"):
        places = _PLACE.findall(cells[2])
        assert places, cells
        assert [place for place in places if not list(ROOT.glob(place.rstrip("/")))] == [], cells[0]


def test_the_promises_are_thirteen_and_in_order() -> None:
    assert [int(cells[0]) for cells in _rows("promises.md")] == list(range(1, 14))


def test_a_test_that_is_not_there_is_noticed() -> None:
    here = "security/test_documents.py"
    assert _exists(here, ["test_a_test_that_is_not_there_is_noticed"])
    assert not _exists(here, ["test_that_nobody_wrote"])
    assert not _exists("edges/security/test_nothing.py", [])
