#!/usr/bin/env python
"""The command line of the farm: `python manage.py help` lists what it can do."""

import os
import sys


def main() -> None:
    """Run one management command. A database that does not answer is one sentence and exit code 1."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")
    from django.core.management import execute_from_command_line  # noqa: PLC0415 (settings must be named first)

    from postgres.reachability import explain_unreachable  # noqa: PLC0415

    try:
        execute_from_command_line(sys.argv)
    except Exception as error:
        sentence = explain_unreachable(error)
        if sentence is None:
            raise
        sys.exit(sentence)


if __name__ == "__main__":
    main()
