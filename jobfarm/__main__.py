"""The command line of the farm: `jobfarm help` lists what it can do. In a checkout it is `manage.py`."""

import gc
import os
import sys

from core.commands import MANAGE
from jobfarm import __version__

# jobfarm_client.command_line.VERBS; a test compares the two.
_OF_CLIENTS = ("submit", "watch", "tail", "cancel", "signal", "bulk")
_WITHOUT_SERVER = (
    "The farm itself needs further packages: in a checkout of it, pip install '.[server]'. Here are "
    f"jobfarm-worker, and jobfarm {', '.join(_OF_CLIENTS)}."
)


def main() -> None:
    """Run one command of the farm or its client. A database that does not answer is one sentence and exit code 1."""
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
    words = sys.argv[1:]
    if words[:1] == ["help"] and words[1:] and words[1] in _OF_CLIENTS:
        words = [words[1], "--help"]
    if words and words[0] in _OF_CLIENTS:  # to any farm: no Django, no database
        from jobfarm_client import command_line as client  # noqa: PLC0415 (httpx, which no other command needs)

        return client.main(words)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")
    gc.disable()  # half a million objects are made and none is garbage: 0.3 of the start's 2 s (docs/adr/0037)
    try:
        import django  # noqa: F401, PLC0415 (a machine that only works has none)
    except ModuleNotFoundError:
        return _WITHOUT_SERVER
    from jobfarm import command_line  # noqa: PLC0415 (settings must be named first)

    failure = command_line.run([MANAGE, *words])
    if not failure and words in ([], ["help"], ["-h"], ["--help"]):
        print("\n[jobfarm_client]", *_OF_CLIENTS, sep="\n    ")
    return failure


if __name__ == "__main__":
    main()
