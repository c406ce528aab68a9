"""`--history FOLDER`: what workers ask and are answered meanwhile, a file for each database, to be checked afterwards:
`.venv/bin/python -m tests.histories FOLDER/*.gz` (docs/chaos.md). What is measured then is compared with nothing."""

import os
from pathlib import Path


def begin() -> None:
    """Write the calls of this process down, if that was asked for. Django is set up, and knows its database."""
    from django.db import connection  # noqa: PLC0415 (Django has to be set up first)

    from tests.histories import recorder  # noqa: PLC0415

    if folder := os.environ.get("BENCH_HISTORY"):
        path = Path(folder) / f"{os.environ.get('BENCH_ROW', '')}{connection.settings_dict['NAME']}.gz"
        recorder.record(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
