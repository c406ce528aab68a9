"""The command line of the farm: `jobfarm help` lists what it can do. In a checkout it is `manage.py`."""

import gc
import os
import sys

from core.commands import MANAGE
from jobfarm import __version__

_WITHOUT_SERVER = (
    "The farm itself needs further packages: pip install 'jobfarm[server]'. Here is the worker alone."
)


def main() -> None:
    """Run one management command. A database that does not answer is one sentence and exit code 1."""
    try:
        status = _status()
        sys.stdout.flush()
    except BrokenPipeError:  # `doctor | head`: whoever read has enough; at the end Python flushes once more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    sys.exit(status)


def _status() -> str | int | None:
    if sys.argv[1:] == ["--version"]:
        print(f"jobfarm {__version__}")
        return None
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")
    gc.disable()  # half a million objects are made and none is garbage: 0.3 of the start's 2 s (docs/adr/0039)
    try:
        import django  # noqa: F401, PLC0415 (a machine that only works has none)
    except ModuleNotFoundError:
        return _WITHOUT_SERVER
    from jobfarm import command_line  # noqa: PLC0415 (settings must be named first)

    return command_line.run([MANAGE, *sys.argv[1:]])


if __name__ == "__main__":
    main()
