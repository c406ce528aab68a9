"""Wheels of the farm, built from a tree and installed in environments of their own, as pip would install them."""

import subprocess
import sys
from collections.abc import Iterable
from fnmatch import fnmatchcase
from importlib.metadata import Distribution, distribution
from pathlib import Path
from shutil import copytree
from typing import Final

from packaging.requirements import Requirement

ROOT: Final = Path(__file__).parents[2]
_PATTERNS: Final = (ROOT / ".dockerignore").read_text().split()


def is_ignored(path: str) -> bool:
    """Whether the image's build does not see this file or folder (.dockerignore); `path` is relative to the tree."""
    return any(_fits(path, pattern) for pattern in _PATTERNS)


def _fits(path: str, pattern: str) -> bool:
    bare = pattern.removeprefix("**/")
    return fnmatchcase(path.rpartition("/")[2] if bare != pattern else path, bare)


def context(into: Path) -> Path:
    """A copy of this tree with what `docker build` sends of it."""

    def ignored(folder: str, names: list[str]) -> list[str]:
        inside = Path(folder).relative_to(ROOT)
        return [name for name in names if is_ignored(str(inside / name))]

    return copytree(ROOT, into, ignore=ignored, symlinks=True)


def build(tree: Path, into: Path) -> Path:
    """The wheel of a tree. It is built in the tree: give it a copy."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--wheel-dir", str(into), str(tree)], check=True, timeout=120)
    [wheel] = into.glob("jobfarm-*.whl")
    return wheel


def install(wheel: Path, into: Path, *, extras: Iterable[str] = ()) -> Path:
    """A virtual environment with the wheel, and of everything that it or these extras require what this environment
    has, by links; its folder of programs."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(into)], check=True, timeout=60)
    pip = [sys.executable, "-m", "pip", "--python", str(into / "bin" / "python"), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", str(wheel)], check=True, timeout=120)
    [packages] = into.glob("lib/*/site-packages")
    [ours] = (Distribution.at(path) for path in packages.glob("jobfarm-*.dist-info"))
    for name in required(ours, extras):
        _link(distribution(name), packages)
    return into / "bin"


def required(of: Distribution, extras: Iterable[str]) -> set[str]:
    """The names of all that it requires with these extras, and of all that they require."""
    found: set[str] = set()
    waiting = _direct(of, extras)
    while waiting:
        requirement = waiting.pop()
        if requirement.name.lower() not in found or requirement.extras:
            found.add(requirement.name.lower())
            waiting += _direct(distribution(requirement.name), requirement.extras)
    return found


def _direct(of: Distribution, extras: Iterable[str]) -> list[Requirement]:
    requirements = map(Requirement, of.requires or [])
    wanted = ["", *extras]
    return [each for each in requirements if _applies(each, wanted)]


def _applies(requirement: Requirement, extras: list[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in extras)


def _link(of: Distribution, into: Path) -> None:
    for name in {file.parts[0] for file in of.files or [] if file.parts[0] not in {"..", "__pycache__"}}:
        target = into / name
        if not target.exists():
            target.symlink_to(Path(str(of.locate_file(name))))
