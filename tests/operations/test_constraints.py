"""constraints.txt has a version for every package that the requirements bring along, and no other for theirs."""

import re
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.operations.wheels import ROOT, required


def _read(name: str) -> Iterator[Requirement]:
    for line in (ROOT / name).read_text().splitlines():
        text = line.partition("#")[0].strip()
        if text and not text.startswith("-"):
            yield Requirement(text)


def _here(name: str) -> dict[str, str]:
    """The pins of a file that count in this environment."""
    pins = [each for each in _read(name) if each.marker is None or each.marker.evaluate()]
    return {canonicalize_name(pin.name): str(pin.specifier) for pin in pins}


def test_they_have_all_that_the_requirements_bring_along() -> None:
    wanted = [*_read("requirements.txt"), *_read("requirements-dev.txt")]
    names = {canonicalize_name(each.name) for each in wanted}
    for each in wanted:
        names |= {canonicalize_name(name) for name in required(distribution(each.name), each.extras)}
    pinned = _here("constraints.txt")
    assert len(names) > 100
    assert names - set(pinned) == set(), "make constraints"
    assert all(re.fullmatch(r"==[\w.!+]+", version) for version in pinned.values())


def test_they_agree_with_the_requirements() -> None:
    pinned = _here("constraints.txt")
    wanted = _here("requirements.txt") | _here("requirements-dev.txt")
    assert {name: pinned[name] for name in wanted} == wanted, "make constraints"


def test_they_are_read_with_the_requirements_and_name_no_place_to_look() -> None:
    assert "-c constraints.txt" in (ROOT / "requirements.txt").read_text().splitlines()
    assert "-r requirements.txt" in (ROOT / "requirements-dev.txt").read_text().splitlines()
    text = Path(ROOT / "constraints.txt").read_text()
    assert not re.search(r"://|^-| @ |\[", text, re.MULTILINE)
