"""Whose rights the processes have that strangers talk to, when root starts a farm: those of the account that the
embedded PostgreSQL runs as. Where that account cannot run them, a sentence says why (docs/adr/0002)."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from django.conf import settings

from postgres import embedded
from postgres.embedded.places import Account, account_for_root
from postgres.errors import PostgresError

_PROBE_S: Final = 30.0
# What a web process needs of the disk, tried by the account itself: the code of every app, and room for files.
_PROBE: Final = """
import importlib.util, os, sys
code, files, *packages = sys.argv[1:]
sys.path.insert(0, code)
for name in packages:
    if importlib.util.find_spec(name) is None:
        sys.exit(f"it finds no {name}")
if files and not os.access(files, os.R_OK | os.W_OK | os.X_OK):
    sys.exit(f"it may not write into {files}")
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What `subprocess` needs to start something with fewer rights, what its environment must say, and, where it keeps
    root's, the sentence that says why."""

    credentials: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    complaint: str = ""


def of_servants() -> Rights:
    """The rights of the web process and of the worker that comes along. Nobody but root can give any up."""
    if os.geteuid() != 0:
        return Rights()
    try:
        account = account_for_root(embedded.location(settings.JOBFARM_DATA).home)
        _hand_over_files(account)
        obstacle = _obstacle(account)
    except (PostgresError, OSError) as error:
        obstacle = str(error)
    if obstacle:
        return Rights(complaint=f"The web process keeps root's rights: {obstacle}. {_REMEDY}")
    return Rights(credentials=account.credentials, environment=_environment())


_REMEDY: Final = "Put the farm where others may read it (/opt/jobfarm, say), or start it as another user."


def _environment() -> dict[str, str]:
    """The key lies in a file of root's, as the settings may; a server of another account's is reached, not started."""
    own = {"SECRET_KEY": settings.SECRET_KEY, "JOBFARM_ENV_FILE": ""}
    database = settings.DATABASES["default"]
    return own | ({"JOBFARM_EMBEDDED_SOCKET": database["HOST"]} if "EMBEDDED" in database else {})


def _files() -> Path | None:
    return None if os.environ.get("FILES_URL") else Path(settings.MEDIA_ROOT)


def _hand_over_files(account: Account) -> None:
    """The files that a farm with root's rights wrote are the account's from now on."""
    files = _files()
    if files is None:
        return
    files.mkdir(parents=True, exist_ok=True)
    if files.stat().st_uid == account.uid:
        return
    for folder, _, names in os.walk(files, topdown=False):  # the topmost last: a walk that was killed begins anew
        for path in [*(os.path.join(folder, name) for name in names), folder]:
            os.chown(path, account.uid, account.gid, follow_symlinks=False)


def _obstacle(account: Account) -> str:
    """Why this account cannot serve the site; empty if it can."""
    packages = sorted({app.partition(".")[0] for app in settings.INSTALLED_APPS} | {"uvicorn", "psycopg"})
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROBE, str(settings.BASE_DIR), str(_files() or ""), *packages], cwd="/",
            capture_output=True, text=True, timeout=_PROBE_S, check=False, **account.credentials,
        )  # fmt: skip
    except PermissionError:
        python = Path(sys.executable)
        return f"user {account.uid} may not enter {_closed([python, python.resolve(), settings.BASE_DIR])}"
    except subprocess.TimeoutExpired:
        return f"user {account.uid} did not get Python to start within {_PROBE_S:g} s"
    return "" if done.returncode == 0 else f"user {account.uid}: {(done.stderr.strip().splitlines() or ['?'])[-1]}"


def _closed(paths: Iterable[Path]) -> Path:
    """The first of the folders above these that is closed to others."""
    above = [folder for path in paths for folder in [*reversed(path.parents), path]]
    return next((folder for folder in above if not folder.stat().st_mode & stat.S_IXOTH), above[-1])
