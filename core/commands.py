"""How commands of the farm are typed and started: `manage.py X` in a checkout, `jobfarm X` where a wheel
is installed."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

CODE: Final = Path(__file__).resolve().parents[1]
"""The folder that holds every package of the farm: a checkout, or the site-packages of an environment."""

IS_CHECKOUT: Final = (CODE / "manage.py").is_file() and (CODE / "pyproject.toml").is_file()

MANAGE: Final = "manage.py" if IS_CHECKOUT else "jobfarm"
"""What sentences name: whoever reads "Run manage.py migrate." types it."""

FARM_URL: Final = "farm.url"  # in JOBFARM_DATA: where the farm listens that has it locked

# -P: a folder `jobs` where somebody types a command is not ours.
_ENTRY: Final = [str(CODE / "manage.py")] if IS_CHECKOUT else ["-P", "-m", "jobfarm"]


def argv(*words: str) -> list[str]:
    """Return the command line of a management command in a process of its own, whatever its working directory is."""
    return [sys.executable, *_ENTRY, *words]


def module(name: str) -> list[str]:
    """Return the command line that runs one of our packages in a process whose environment has `importable()`."""
    return [sys.executable, "-P", "-m", name]


def importable() -> dict[str, str]:
    """Return the variables by which Python finds our packages: those of a checkout lie in no folder that it knows."""
    known = os.environ.get("PYTHONPATH", "")
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(CODE), known]))} if IS_CHECKOUT else {}


def own_url() -> str:
    """Return where the farm of this folder listens; if none runs there, where its parts do by themselves."""
    import fcntl  # noqa: PLC0415 (a machine that only submits may have no such thing, and no Django)

    from django.conf import settings  # noqa: PLC0415

    url = ""
    with suppress(FileNotFoundError), Path(settings.JOBFARM_DATA, FARM_URL).open() as noted:
        try:
            fcntl.flock(noted, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # else it is of a farm that was killed
            url = noted.read()
    return url or f"http://127.0.0.1:{settings.PORT}"
