#!/usr/bin/env python
"""The command line of the farm: `python manage.py help` lists what it can do."""

import os
import sys


def main() -> None:
    """Run one management command."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "jobfarm.settings")
    from django.core.management import execute_from_command_line  # noqa: PLC0415 (settings must be named first)

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
