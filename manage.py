#!/usr/bin/env python
"""The command line of the farm: `python manage.py help` lists what it can do."""

import gc
import os
import sys


def main() -> None:
    """Run one management command. A database that does not answer is one sentence and exit code 1."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")
    gc.disable()  # half a million objects are made and none is garbage: 0.3 of the start's 2 s (docs/adr/0039)
    from jobfarm import command_line  # noqa: PLC0415 (settings must be named first)

    sys.exit(command_line.run(sys.argv))


if __name__ == "__main__":
    main()
