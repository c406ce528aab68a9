"""Clients from the registry of npm, installed as a lock says, and kept from one run to the next."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.forkserver import ROOT

LOCK = "package-lock.json"


def installed(source: Path) -> Path:
    """A folder with what the lock in `source` names, installed if another lock was kept, and the scripts beside it."""
    kept = ROOT / "var/node" / source.name
    if not (kept / LOCK).exists() or (kept / LOCK).read_bytes() != (source / LOCK).read_bytes():
        _install(source, kept)
    for script in source.glob("*.mjs"):
        shutil.copy(script, kept)
    return kept


def _install(source: Path, kept: Path) -> None:
    kept.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(dir=kept.parent))
    for name in ("package.json", LOCK):
        shutil.copy(source / name, new)
    command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(command, cwd=new, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    shutil.rmtree(kept, ignore_errors=True)
    new.rename(kept)
